package conformance

import (
	"errors"
	"time"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// clockChecks prove S7: what a wrong clock can do, and what it cannot.
var clockChecks = []check{
	{clause: "S7", name: "clock_jumps_ahead", when: expires, run: clockJumps},
	{clause: "S7", name: "clock_jumps_ahead_inside_guard", when: expires, run: clockJumpsInsideGuard},
	{clause: "S7", name: "expired_but_not_taken_over", when: expires, run: expiredNotTaken},
	{clause: "S7", name: "time_zones", when: leases, run: timeZones},
	{clause: "S7", name: "others_have_a_shorter_ttl", when: leases, run: othersShorter},
}

func expires(s Strategy) bool { return s.Expire != nil }

func (w *world) expire(key string) {
	w.Helper()
	w.must(w.strategy.Expire(w.ctx, w.admin, key), "end the lease of "+key)
}

// takeExpired has by take a key whose lease the database believes to have ended. A
// renewal under way may come in between; then the clock jumps again.
func (w *world) takeExpired(by *node, key string) (claim pgcoord.Claim) {
	w.Helper()
	pgtest.Eventually(w, bound, by.name+" gets the expired key", func() (ok bool) {
		var err error
		w.expire(key)
		claim, err = by.TryAcquire(w.ctx, key)
		return err == nil
	})
	by.owns(claim, key)
	return claim
}

// clockJumps makes takeovers early: each claim still has its own effects alone.
func clockJumps(w *world) { // 12, 23
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	old := a.try(key)
	w.add(old)
	next := w.takeExpired(b, key)
	w.wants(old.BeginFunc(w.ctx, counting(w.ctx, old)), pgcoord.ErrLost, "BeginFunc after the takeover")
	w.usable(next)
	w.wants(old.Release(w.ctx), pgcoord.ErrLost, "Release after the takeover")
	a.held(key)
	w.release(next)
	w.audit(key, 2)
}

func clockJumpsInsideGuard(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	old := a.try(key)
	end := w.begin(w.ctx, old, counting(w.ctx, old))
	w.expire(key)
	b.held(key)
	w.must(end(nil), "end of the guarded transaction")
	next := w.takeExpired(b, key)
	w.usable(next)
	w.release(next)
	w.audit(key, 2)
}

func expiredNotTaken(w *world) { // 12
	key, a := w.key("k"), w.node(setup{})
	claim := a.try(key)
	const times = 4
	for range times { // some renewal may come in between once
		w.expire(key)
		w.usable(claim) // not taken over is still its own
	}
	w.expire(key)
	w.must(claim.Complete(w.ctx, counting(w.ctx, claim)), "Complete after the end of the lease")
	w.audit(key, times+1)
}

func timeZones(w *world) { // 24
	east, west := w.node(setup{params: map[string]string{"timezone": "Asia/Tokyo"}}), w.node(setup{params: map[string]string{"timezone": "America/Los_Angeles"}})
	for _, pair := range [][2]*node{{east, west}, {west, east}} {
		holder, other := pair[0], pair[1]
		key := w.key("held by " + holder.name)
		claim := holder.try(key)
		_, err := other.TryAcquire(w.ctx, key)
		var held *pgcoord.HeldError
		if !errors.As(err, &held) {
			w.Fatalf("TryAcquire from another time zone: %v", err)
		}
		if left := time.Until(held.Until); left <= 0 || left > long+slack {
			w.Fatalf("the lease ends in %v, with a TTL of %v", left, long)
		}
		w.release(claim)
	}
}

func othersShorter(w *world) { // 22
	const shorter = 100 * time.Millisecond
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{ttl: shorter})
	claim := a.try(key)
	b.heldFor(5*shorter, key)
	w.usable(claim)
	w.release(claim)
}
