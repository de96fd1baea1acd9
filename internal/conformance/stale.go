package conformance

import (
	"errors"
	"strings"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// staleChecks prove S8: late calls of an older claim touch nothing.
var staleChecks = []check{
	{clause: "S8", name: "late_calls_touch_nothing", run: lateCalls},
	{clause: "S8", name: "late_renewals_touch_nothing", when: leases, run: lateRenewals},
	{clause: "S8", name: "grant_id_shares_the_claim", when: leases, run: grantIDShares},
	{clause: "S8", name: "bad_grant_id", run: badGrantID},
}

// lateCalls has both claims made by holders of the same name, in processes that
// cannot tell themselves apart.
func lateCalls(w *world) { // 02, 12, 13
	a, b := w.node(setup{ttl: brief, idle: brief, proxied: true, holder: "twin"}), w.node(setup{holder: "twin"})
	key, c := w.key("k"), w.node(setup{})
	old := a.try(key)
	next := w.takeOver(a, b, key)
	calls := []struct {
		name string
		call func() error
	}{
		{"Release", func() error { return old.Release(w.ctx) }},
		{"Complete", func() error { return old.Complete(w.ctx, counting(w.ctx, old)) }},
		{"BeginFunc", func() error { return old.BeginFunc(w.ctx, counting(w.ctx, old)) }},
		{"Release again", func() error { return old.Release(w.ctx) }},
	}
	for _, late := range calls {
		w.wants(late.call(), pgcoord.ErrLost, "late "+late.name)
		w.stillHeld(c, next)
	}
	w.release(next)
	w.wants(old.Release(w.ctx), pgcoord.ErrLost, "Release after the next claim's")
	w.audit(key, int64(len(calls)))
}

// stillHeld proves that claim is current and keeps others out. It counts one.
func (w *world) stillHeld(other *node, claim pgcoord.Claim) {
	w.Helper()
	w.usable(claim)
	if w.strategy.Supersedes {
		return
	}
	_, err := other.TryAcquire(w.ctx, claim.Key())
	var held *pgcoord.HeldError
	if !errors.As(err, &held) {
		w.Fatalf("TryAcquire of a held key: got %v, want a HeldError", err)
	}
	if w.strategy.Leases {
		same(w, held.Token, claim.Token(), "token of the current claim")
	}
}

// lateRenewals lets renewals of an older claim arrive after the takeover.
func lateRenewals(w *world) { // R6
	key, a := w.key("k"), w.node(setup{ttl: brief, idle: brief, proxied: true})
	b, c := w.node(setup{}), w.node(setup{})
	old := a.try(key)
	next := w.takeOver(a, b, key) // what was held back arrives now
	soon(w, bound, old.Lost(), "the older claim is told")
	pgtest.Eventually(w, slack, "the older node works again", func() bool { return a.pool.Ping(w.ctx) == nil })
	w.stillHeld(c, next)
	w.release(next)
	w.release(c.acquireWithin(slack, key))
}

func grantIDShares(w *world) { // 53
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	ctx := pgcoord.WithGrantID(w.ctx, "one")
	first, err := a.TryAcquire(ctx, key)
	w.must(err, "TryAcquire under a grant id")
	again, err := a.TryAcquire(ctx, key)
	w.must(err, "TryAcquire again under the same grant id")
	other, err := b.Acquire(ctx, key)
	w.must(err, "Acquire elsewhere under the same grant id")
	same(w, again.Token(), first.Token(), "token of the shared claim")
	same(w, other.Token(), first.Token(), "token of the shared claim")
	_, err = b.TryAcquire(pgcoord.WithGrantID(w.ctx, "another"), key)
	w.wants(err, pgcoord.ErrHeld, "TryAcquire under another grant id")
	w.usable(first)
	w.usable(other)
	w.must(other.Complete(w.ctx, counting(w.ctx, other)), "Complete of the shared claim")
	w.wants(first.BeginFunc(w.ctx, counting(w.ctx, first)), pgcoord.ErrLost, "BeginFunc after the other has completed")
	w.audit(key, 3)
}

func badGrantID(w *world) {
	key, a := w.key("k"), w.node(setup{})
	for _, id := range []string{"", "a\x00b", "a\xff", strings.Repeat("x", 129)} {
		_, err := a.TryAcquire(pgcoord.WithGrantID(w.ctx, id), key)
		w.refused(err, "TryAcquire with a bad grant id")
		_, err = a.Acquire(pgcoord.WithGrantID(w.ctx, id), key)
		w.refused(err, "Acquire with a bad grant id")
	}
	w.release(a.try(key))
}
