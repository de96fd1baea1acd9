package conformance

import (
	"errors"
	"strings"

	"github.com/pgcoord/pgcoord"
)

// staleChecks prove S8: late calls of an older claim touch nothing.
var staleChecks = []check{
	{clause: "S8", name: "late_calls_touch_nothing", run: lateCalls},
	{clause: "S8", name: "late_renewals_touch_nothing", when: expires, run: lateRenewals},
	{clause: "S8", name: "grant_id_shares_the_claim", when: leases, run: grantIDShares},
	{clause: "S8", name: "bad_grant_id", run: badGrantID},
}

// late are the calls that an older claim may still make.
var late = []struct {
	name string
	call func(*world, pgcoord.Claim) error
}{
	{"Release", func(w *world, c pgcoord.Claim) error { return c.Release(w.ctx) }},
	{"Complete", func(w *world, c pgcoord.Claim) error { return c.Complete(w.ctx, counting(w.ctx, c)) }},
	{"Complete without a function", func(w *world, c pgcoord.Claim) error { return c.Complete(w.ctx, nil) }},
	{"BeginFunc", func(w *world, c pgcoord.Claim) error { return c.BeginFunc(w.ctx, counting(w.ctx, c)) }},
}

// lateCalls makes each call first: one that was refused knows that it has lost.
func lateCalls(w *world) { // 02, 12, 13
	w.lateCall(0, func(a, b *node, key string) pgcoord.Claim { return w.takeOver(a, b, key) })
	for i := range late {
		w.lateCall(i, func(a, b *node, key string) pgcoord.Claim {
			if w.strategy.Expire == nil {
				return w.takeOver(a, b, key)
			}
			return w.takeExpired(b, key) // the older one has not noticed anything
		})
	}
}

// lateCall begins with the call of number first and goes on with the others. Both
// claims are made by holders of the same name, who cannot tell themselves apart.
func (w *world) lateCall(first int, take func(a, b *node, key string) pgcoord.Claim) {
	w.Helper()
	a, b := w.node(setup{ttl: renewed, idle: brief, proxied: true, holder: "twin"}), w.node(setup{holder: "twin"})
	key, c := w.key(a.name), w.node(setup{})
	old := a.try(key)
	next := take(a, b, key)
	for i := range late {
		l := late[(first+i)%len(late)]
		w.wants(l.call(w, old), pgcoord.ErrLost, "late "+l.name)
		w.stillHeld(c, next)
	}
	w.release(next)
	w.wants(old.Release(w.ctx), pgcoord.ErrLost, "Release after the next claim's")
	w.audit(key, int64(len(late)))
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

// lateRenewals lets renewals of an older claim arrive after the takeover: the
// newer one ends when its own stop.
func lateRenewals(w *world) { // R6
	key, a := w.key("k"), w.node(setup{ttl: brief})
	b, c := w.node(setup{ttl: brief, idle: brief, proxied: true}), w.node(setup{})
	old := a.try(key)
	next := w.takeExpired(b, key)
	w.stillHeld(c, next)
	b.proxy.Freeze()
	last := c.acquireWithin(bound, key)
	b.proxy.Thaw()
	w.usable(last)
	w.release(last)
	w.wants(old.Release(w.ctx), pgcoord.ErrLost, "Release of the oldest claim")
	w.wants(next.Release(w.ctx), pgcoord.ErrLost, "Release of the older claim")
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
