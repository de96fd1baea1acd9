package conformance

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
)

// shapeChecks prove what the doc comments of Coordinator and Claim say of calls
// that nothing disturbs.
var shapeChecks = []check{
	{clause: "S2", name: "release_frees", run: releaseFrees},
	{clause: "S2", name: "held_error_tells_who", when: leases, run: heldErrorTellsWho},
	{clause: "S2", name: "complete_ends_the_claim", run: completeEndsTheClaim},
	{clause: "S2", name: "acquire_answers_done", when: func(s Strategy) bool { return s.RemembersDone }, run: acquireAnswersDone},
	{clause: "S2", name: "missing_key", when: func(s Strategy) bool { return !s.CreatesKeys }, run: missingKey},
	{clause: "S2", name: "close_frees", run: closeFrees},
	{clause: "S2", name: "close_ends_waiting", run: closeEndsWaiting},
}

func releaseFrees(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	first, free := w.occupy(a, key)
	b.held(key)
	if w.closed(first.Lost()) {
		w.Fatal("Lost is closed while the claim is current")
	}
	free()
	w.must(first.Release(w.ctx), "Release again") // 13: twice is nil, nil
	second := b.try(key)
	w.must(first.Release(w.ctx), "Release again, under the next claim")
	w.usable(second)
	if second.Token() <= first.Token() {
		w.Fatalf("token %d after %d", second.Token(), first.Token())
	}
	w.wants(first.BeginFunc(w.ctx, counting(w.ctx, first)), pgcoord.ErrLost, "BeginFunc after Release")
	w.wants(first.Complete(w.ctx, counting(w.ctx, first)), pgcoord.ErrLost, "Complete after Release")
	w.release(second)
	w.audit(key, 1)
}

func heldErrorTellsWho(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	claim, free := w.occupy(a, key)
	defer free()
	_, err := b.TryAcquire(w.ctx, key)
	var held *pgcoord.HeldError
	if !errors.As(err, &held) {
		w.Fatalf("TryAcquire of a held key: got %v, want a HeldError", err)
	}
	w.wants(err, pgcoord.ErrHeld, "HeldError")
	same(w, held.Key, key, "HeldError.Key")
	same(w, held.Holder, a.name, "HeldError.Holder")
	same(w, held.Token, claim.Token(), "HeldError.Token")
	var now time.Time
	w.must(w.admin.QueryRow(w.ctx, "SELECT clock_timestamp()").Scan(&now), "ask the time")
	if held.Since.After(now) || now.Sub(held.Since) > patience {
		w.Fatalf("HeldError.Since is %v at %v", held.Since, now)
	}
	if left := held.Until.Sub(now); left <= long/2 || left > long {
		w.Fatalf("HeldError.Until is %v from now, with a TTL of %v", left, long)
	}
}

func completeEndsTheClaim(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	claim := a.try(key)
	w.wants(claim.Complete(w.ctx, func(tx pgx.Tx) error {
		return errors.Join(counting(w.ctx, claim)(tx), errWork)
	}), errWork, "Complete with a function that fails")
	w.usable(claim) // a definite failure leaves the claim as before
	w.must(claim.Complete(w.ctx, counting(w.ctx, claim)), "Complete")
	w.wants(claim.Complete(w.ctx, counting(w.ctx, claim)), pgcoord.ErrDone, "Complete again")
	w.wants(claim.BeginFunc(w.ctx, counting(w.ctx, claim)), pgcoord.ErrLost, "BeginFunc after Complete")
	w.must(claim.Release(w.ctx), "Release after Complete")
	w.audit(key, 2)
	next, err := b.TryAcquire(w.ctx, key)
	if w.strategy.RemembersDone {
		w.wants(err, pgcoord.ErrDone, "TryAcquire of a completed key")
		return
	}
	w.must(err, "TryAcquire of a key that was completed")
	w.must(claim.Release(w.ctx), "Release after Complete, under the next claim")
	w.usable(next)
	w.release(next)
}

func acquireAnswersDone(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	claim := a.try(key)
	waiting := async(w, func() error {
		_, err := b.Acquire(w.ctx, key)
		return err
	})
	w.must(claim.Complete(w.ctx, nil), "Complete")
	w.wants(soon(w, slack, waiting, "Acquire answers"), pgcoord.ErrDone, "Acquire of a key that was completed meanwhile")
	_, err := b.Acquire(w.ctx, key)
	w.wants(err, pgcoord.ErrDone, "Acquire of a completed key")
}

func missingKey(w *world) { // 41
	a := w.node(setup{})
	_, err := a.TryAcquire(w.ctx, "none")
	w.wants(err, pgcoord.ErrNotFound, "TryAcquire of a key that is not there")
	_, err = a.Acquire(w.within(slack), "none")
	w.wants(err, pgcoord.ErrNotFound, "Acquire of a key that is not there")
}

func closeFrees(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	claim := a.try(key)
	w.add(claim)
	w.must(a.Close(w.ctx), "Close")
	if !w.closed(claim.Lost()) {
		w.Error("Lost is open after Close")
	}
	w.refused(claim.BeginFunc(w.ctx, counting(w.ctx, claim)), "BeginFunc after Close")
	_, err := a.TryAcquire(w.ctx, key)
	w.wants(err, pgcoord.ErrClosed, "TryAcquire after Close")
	_, err = a.Acquire(w.ctx, key)
	w.wants(err, pgcoord.ErrClosed, "Acquire after Close")
	next := b.try(key)
	w.usable(next)
	w.release(next)
	w.audit(key, 2)
}

func closeEndsWaiting(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	_, free := w.occupy(a, key)
	defer free()
	waiting := async(w, func() error {
		_, err := b.Acquire(w.ctx, key)
		return err
	})
	w.must(b.Close(w.ctx), "Close")
	w.wants(soon(w, slack, waiting, "Acquire returns"), pgcoord.ErrClosed, "Acquire while closing")
}
