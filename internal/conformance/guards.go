package conformance

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// guardChecks prove what an open guarded transaction keeps out, and what keeps
// it out.
var guardChecks = []check{
	{clause: "S3", name: "guard_excludes_takeover", run: guardExcludesTakeover},
	{clause: "S3", name: "acquire_waits_for_open_guard", run: acquireWaitsForGuard},
	{clause: "S3", name: "taken_over_cannot_begin", run: takenOverCannotBegin},
	{clause: "S3", name: "complete_waits_for_open_guard", when: durableGuards, run: func(w *world) { endWaitsForGuard(w, true) }},
	{clause: "S3", name: "release_waits_for_open_guard", when: durableGuards, run: func(w *world) { endWaitsForGuard(w, false) }},
	{clause: "S3", name: "complete_waits_for_guards_elsewhere", when: leases, run: completeWaitsElsewhere},
	{clause: "S3", name: "completions_at_once", run: completionsAtOnce},
	{clause: "S4", name: "first_statement_sees_predecessor", run: seesPredecessor},
	{clause: "S10", name: "renewed_during_own_guards", when: leases, run: renewedDuringGuards},
}

// guardExcludesTakeover cuts a node off inside a guarded transaction. Its lease
// ends, but nobody gets the key before the transaction does; nor is it refused
// then, because nobody else has had the key (S7).
func guardExcludesTakeover(w *world) { // 30
	key, a, b := w.key("k"), w.node(setup{ttl: brief, proxied: true}), w.node(setup{})
	claim := a.try(key)
	end := w.begin(w.ctx, claim, counting(w.ctx, claim))
	a.proxy.Freeze()
	b.heldFor(2*brief, key)
	a.proxy.Thaw()
	w.must(end(nil), "end of the guarded transaction")
	if w.strategy.DurableGuards {
		same(w, w.counted(key), 1, "counter before the takeover")
	} else {
		w.release(claim)
	}
	next := b.acquireWithin(bound, key)
	w.usable(next)
	w.wants(claim.BeginFunc(w.ctx, counting(w.ctx, claim)), pgcoord.ErrLost, "BeginFunc after the takeover")
	w.release(next)
	w.audit(key, 2)
}

func acquireWaitsForGuard(w *world) { // 30
	key, a, b := w.key("k"), w.node(setup{ttl: brief, proxied: true}), w.node(setup{})
	claim := a.try(key)
	end := w.begin(w.ctx, claim, counting(w.ctx, claim))
	a.proxy.Freeze()
	var ending atomic.Bool
	waiting := async(w, func() error {
		next, err := b.Acquire(w.ctx, key)
		if err != nil {
			return err
		}
		if !ending.Load() {
			return errors.New("granted while a guarded transaction was open")
		}
		return errors.Join(next.BeginFunc(w.ctx, counting(w.ctx, next)), next.Release(w.ctx))
	})
	b.heldFor(2*brief, key)
	ending.Store(true)
	a.proxy.Thaw()
	w.must(end(nil), "end of the guarded transaction")
	if !w.strategy.DurableGuards {
		w.release(claim)
	}
	w.must(soon(w, bound, waiting, "the key is free after the guarded transaction"), "Acquire")
	w.audit(key, 2)
}

func takenOverCannotBegin(w *world) { // 26
	key, a, b := w.key("k"), w.node(setup{ttl: brief, idle: brief, proxied: true}), w.node(setup{})
	old := a.try(key)
	next := w.takeOver(a, b, key) // which has written nothing yet
	w.wants(old.BeginFunc(w.ctx, counting(w.ctx, old)), pgcoord.ErrLost, "BeginFunc of the older claim")
	w.wants(old.Complete(w.ctx, counting(w.ctx, old)), pgcoord.ErrLost, "Complete of the older claim")
	w.usable(next)
	w.release(next)
	w.audit(key, 1)
}

// endWaitsForGuard proves that nothing of a claim is stored after its end (L2).
func endWaitsForGuard(w *world, complete bool) {
	key, a := w.key("k"), w.node(setup{})
	claim := a.try(key)
	end := w.begin(w.ctx, claim, counting(w.ctx, claim))
	finish := async(w, func() error {
		if complete {
			return claim.Complete(w.ctx, counting(w.ctx, claim))
		}
		return claim.Release(w.ctx)
	})
	pgtest.Eventually(w, slack, "the end of the claim has begun: it lets no more begin", func() bool {
		return claim.BeginFunc(w.within(50*time.Millisecond), func(pgx.Tx) error { return nil }) != nil
	})
	select {
	case err := <-finish:
		w.Fatalf("the claim has ended under an open guarded transaction: %v", err)
	case <-time.After(slack / 10):
	}
	w.must(end(nil), "end of the guarded transaction")
	w.must(soon(w, slack, finish, "the claim ends after its guarded transaction"), "end of the claim")
	w.wants(claim.BeginFunc(w.ctx, counting(w.ctx, claim)), pgcoord.ErrLost, "BeginFunc after the end")
	want := int64(1)
	if complete {
		want = 2
	}
	w.audit(key, want)
}

// completeWaitsElsewhere completes a claim whose guarded transaction is open in
// another process that shares the claim.
func completeWaitsElsewhere(w *world) { // L2
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	ctx := pgcoord.WithGrantID(w.ctx, "shared")
	claim, err := a.TryAcquire(ctx, key)
	w.must(err, "TryAcquire")
	shared, err := b.TryAcquire(ctx, key)
	w.must(err, "TryAcquire under the same grant id")
	end := w.begin(w.ctx, claim, counting(w.ctx, claim))
	complete := async(w, func() error { return shared.Complete(w.ctx, nil) })
	w.waitsForLock(b)
	w.must(end(nil), "end of the guarded transaction")
	w.must(soon(w, slack, complete, "Complete returns after the guarded transaction"), "Complete")
	w.wants(claim.BeginFunc(w.ctx, counting(w.ctx, claim)), pgcoord.ErrLost, "BeginFunc after Complete elsewhere")
	w.audit(key, 1)
}

func completionsAtOnce(w *world) { // L2
	const callers = 4
	key, a := w.key("k"), w.node(setup{})
	claim := a.try(key)
	var results []<-chan error
	for range callers {
		results = append(results, async(w, func() error { return claim.Complete(w.ctx, counting(w.ctx, claim)) }))
	}
	won := 0
	for _, r := range results {
		err := soon(w, patience, r, "Complete returns")
		if err == nil {
			won++
			continue
		}
		w.wants(err, pgcoord.ErrDone, "Complete beside another")
	}
	same(w, won, 1, "successful calls of Complete")
	w.audit(key, 1)
}

// seesPredecessor has the next claim wait behind a guarded transaction: of a lease
// that has ended where there are leases, else of a claim that is released.
func seesPredecessor(w *world) { // 11
	key, a, b := w.key("k"), w.node(setup{ttl: brief, proxied: true}), w.node(setup{})
	claim := a.try(key)
	end := w.begin(w.ctx, claim, counting(w.ctx, claim))
	if w.strategy.Leases {
		a.proxy.Freeze()
		soon(w, bound, claim.Lost(), "the lease ends")
	}
	seen := async(w, func() int64 {
		next, err := b.Acquire(w.ctx, key)
		if err != nil {
			w.Errorf("Acquire: %v", err)
			return -1
		}
		var n int64
		err = next.BeginFunc(w.ctx, func(tx pgx.Tx) (err error) {
			n, err = count(w.ctx, tx, key, next.Token())
			return err
		})
		if err = errors.Join(err, next.Release(w.ctx)); err != nil {
			w.Errorf("count under the next claim: %v", err)
		}
		return n
	})
	w.asked(b)
	pause(w.ctx, brief/4) // and it has time to do what it must not
	a.proxy.Thaw()
	w.must(end(nil), "end of the guarded transaction")
	if !w.strategy.Leases && !w.strategy.Supersedes {
		w.release(claim)
	}
	same(w, soon(w, patience, seen, "the next claim has counted"), 1, "counter that the next claim's first statement sees")
	w.audit(key, 2)
}

// renewedDuringGuards uses up the pool with guarded transactions that are longer
// than the TTL: the claims stay held, and one that needs the pool gets an error.
func renewedDuringGuards(w *world) { // 20, 30
	const ttl = time.Second
	a, b := w.node(setup{ttl: ttl, conns: 2}), w.node(setup{})
	keys := []string{w.key("k1"), w.key("k2")}
	var claims []pgcoord.Claim
	var ends []func(error) error
	for _, key := range keys {
		claims = append(claims, a.try(key))
	}
	for _, claim := range claims {
		ends = append(ends, w.begin(w.ctx, claim, counting(w.ctx, claim)))
	}
	b.heldFor(3*ttl, keys...)
	_, err := a.TryAcquire(w.within(50*time.Millisecond), "needs the pool")
	w.refused(err, "TryAcquire on a pool that is used up")
	for i, claim := range claims {
		w.must(ends[i](nil), "end of a long guarded transaction")
		w.usable(claim)
		w.release(claim)
		w.audit(keys[i], 2)
	}
	pgtest.Eventually(w, slack, "the keys are free", func() bool {
		claim, err := b.TryAcquire(w.ctx, keys[0])
		return err == nil && claim.Release(w.ctx) == nil
	})
}
