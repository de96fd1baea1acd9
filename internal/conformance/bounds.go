package conformance

import "github.com/pgcoord/pgcoord/internal/pgtest"

// boundChecks prove S12: what is dead blocks a key for max(TTL, idle limit) at
// most. Dead processes are in processChecks, dead waiters there and in replyChecks.
var boundChecks = []check{
	{clause: "S12", name: "frozen_holder", when: excludes, run: frozenHolder},
	{clause: "S12", name: "frozen_inside_guard", run: frozenInsideGuard},
	{clause: "S12", name: "cut_holder", when: excludes, run: cutHolder},
	{clause: "S12", name: "idle_function", run: idleFunction},
}

func frozenHolder(w *world) {
	key, a, b := w.key("k"), w.node(setup{ttl: brief, idle: brief, proxied: true}), w.node(setup{})
	a.try(key)
	a.proxy.Freeze()
	claim := b.acquireWithin(bound, key)
	w.usable(claim)
	w.release(claim)
}

// frozenInsideGuard leaves the server with an open transaction and nobody who
// will ever end it.
func frozenInsideGuard(w *world) {
	key, a, b := w.key("k"), w.node(setup{ttl: brief, idle: brief, proxied: true}), w.node(setup{})
	old := a.try(key)
	end := w.begin(w.ctx, old, counting(w.ctx, old))
	a.proxy.Freeze()
	claim := b.acquireWithin(bound, key)
	w.add(claim)
	a.proxy.Thaw()
	w.refused(end(nil), "commit of a transaction that was ended for being idle")
	w.usable(claim)
	w.release(claim)
	w.audit(key, 2)
}

func cutHolder(w *world) {
	key, a, b := w.key("k"), w.node(setup{ttl: brief, idle: brief, proxied: true}), w.node(setup{})
	a.try(key)
	a.proxy.Refuse(true)
	a.proxy.Reset()
	claim := b.acquireWithin(bound, key)
	w.usable(claim)
	w.release(claim)
}

// idleFunction has a function of a guarded transaction do nothing for too long
// in a process that is well: its transaction is ended, which is no outcome unknown.
func idleFunction(w *world) { // 43
	key, a, b := w.key("k"), w.node(setup{ttl: long, idle: brief}), w.node(setup{})
	claim := a.try(key)
	end := w.begin(w.ctx, claim, counting(w.ctx, claim))
	w.endedOnServer(a)
	w.refused(end(nil), "commit of a transaction that was ended for being idle")
	if w.strategy.DurableGuards { // the claim itself stands
		w.usable(claim)
		w.release(claim)
	} else {
		claim = b.acquireWithin(slack, key)
		w.usable(claim)
		w.release(claim)
	}
	w.audit(key, 1)
}

// endedOnServer returns when no transaction of n is open any more.
func (w *world) endedOnServer(n *node) {
	w.Helper()
	const sql = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1 AND state LIKE 'idle in transaction%'`
	pgtest.Eventually(w, bound, "no transaction of "+n.name+" is open", func() bool {
		var open int
		err := w.admin.QueryRow(w.ctx, sql, n.name).Scan(&open)
		return err == nil && open == 0
	})
}
