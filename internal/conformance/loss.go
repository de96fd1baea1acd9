package conformance

import (
	"time"

	"github.com/pgcoord/pgcoord"
)

// lossChecks prove S10: Lost closes in time, and never without a reason.
var lossChecks = []check{
	{clause: "S10", name: "cut_off_holder_is_told", when: leases, run: cutOffIsTold},
	{clause: "S10", name: "taken_over_holder_is_told", when: func(s Strategy) bool { return s.Expire != nil || s.Supersedes }, run: takenOverIsTold},
	{clause: "S10", name: "ended_session_is_told", when: func(s Strategy) bool { return !s.Leases && !s.Supersedes }, run: endedSessionIsTold},
	{clause: "S10", name: "kept_through_reset", when: leases, run: func(w *world) { keptThrough(w, func(a *node) { a.proxy.Reset() }) }},
	{clause: "S10", name: "kept_through_terminated_backends", when: leases, run: func(w *world) { keptThrough(w, w.terminate) }},
	{clause: "S10", name: "kept_through_a_short_outage", when: leases, run: func(w *world) { keptThrough(w, shortOutage) }},
	{clause: "S10", name: "kept_through_a_short_freeze", when: leases, run: func(w *world) { keptThrough(w, shortFreeze) }},
}

// renewed is a TTL that leaves a busy machine time to renew.
const renewed = 1500 * time.Millisecond

func cutOffIsTold(w *world) {
	a := w.node(setup{ttl: renewed, proxied: true})
	claim := a.try(w.key("k"))
	a.proxy.Freeze()
	from := time.Now()
	soon(w, renewed+slack, claim.Lost(), "a holder that is cut off is told")
	// Renewals are at most a third of the TTL apart; the lease counts from the last.
	if early := renewed / 2; time.Since(from) < early {
		w.Fatalf("Lost has closed %v after the connection froze, with a TTL of %v", time.Since(from), renewed)
	}
	a.proxy.Thaw()
}

func takenOverIsTold(w *world) {
	key, a, b := w.key("k"), w.node(setup{ttl: renewed}), w.node(setup{})
	old := a.try(key)
	var next pgcoord.Claim
	if w.strategy.Supersedes {
		next = b.try(key)
	} else {
		next = w.takeExpired(b, key)
	}
	soon(w, renewed+slack, old.Lost(), "a holder that was taken over is told")
	w.wants(old.BeginFunc(w.ctx, counting(w.ctx, old)), pgcoord.ErrLost, "BeginFunc after the takeover")
	w.usable(next)
	w.release(next)
}

// endedSessionIsTold ends the connection that is the claim.
func endedSessionIsTold(w *world) { // 43
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	claim := a.try(key)
	w.must(claim.BeginFunc(w.ctx, counting(w.ctx, claim)), "BeginFunc")
	w.terminate(a)
	soon(w, slack, claim.Lost(), "a holder whose connection was ended is told")
	w.wants(claim.BeginFunc(w.ctx, counting(w.ctx, claim)), pgcoord.ErrLost, "BeginFunc without a connection")
	next := b.acquireWithin(slack, key)
	w.usable(next)
	w.release(next)
	w.audit(key, 1)
}

// keptThrough has a claim live for longer than its TTL, survive a fault, and be
// kept for two TTLs more.
func keptThrough(w *world, fault func(*node)) { // 18
	key, a, b := w.key("k"), w.node(setup{ttl: renewed, proxied: true}), w.node(setup{})
	claim := a.try(key)
	b.heldFor(renewed*11/10, key)
	fault(a)
	b.heldFor(2*renewed, key)
	if w.closed(claim.Lost()) {
		w.Fatal("Lost has closed although the claim is current")
	}
	w.usable(claim)
	w.release(claim)
	w.audit(key, 1)
}

// terminate ends all server processes of a node.
func (w *world) terminate(n *node) {
	w.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1`, n.name)
}

// shortOutage refuses connections for a part of the TTL, so that some renewal fails.
func shortOutage(a *node) {
	a.proxy.Refuse(true)
	a.proxy.Reset()
	<-time.After(renewed / 3)
	a.proxy.Refuse(false)
}

// shortFreeze delays a renewal by a part of the TTL.
func shortFreeze(a *node) {
	a.proxy.Freeze()
	<-time.After(renewed / 4)
	a.proxy.Thaw()
}
