package conformance

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/pgcoord/pgcoord"
)

// workChecks prove S9 through Do: a claim is kept until the work has returned.
var workChecks = []check{
	{clause: "S9", name: "kept_until_the_work_returns", when: excludes, run: keptUntilReturn},
	{clause: "S9", name: "error_releases", run: func(w *world) { endsBadly(w, func() error { return errWork }, errWork) }},
	{clause: "S9", name: "panic_releases", run: func(w *world) { endsBadly(w, func() error { panic("work") }, nil) }},
	{clause: "S9", name: "goexit_releases", run: func(w *world) { endsBadly(w, func() error { runtime.Goexit(); return nil }, nil) }},
	{clause: "S9", name: "try_do_does_not_wait", when: excludes, run: tryDoDoesNotWait},
	{clause: "S10", name: "work_is_told", when: func(s Strategy) bool { return s.Leases || s.Supersedes }, run: workIsTold},
}

// keptUntilReturn cancels work that does not listen: it keeps the key, far beyond
// the TTL, until it returns.
func keptUntilReturn(w *world) {
	const ttl = time.Second
	key, a, b := w.key("k"), w.node(setup{ttl: ttl}), w.node(setup{})
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	err := pgcoord.Do(ctx, a, key, func(_ context.Context, claim pgcoord.Claim) error {
		cancel()
		b.heldFor(2*ttl, key)
		w.usable(claim)
		return errWork
	})
	w.wants(err, errWork, "Do")
	w.release(b.try(key))
	w.audit(key, 1)
}

// endsBadly has the work end by other ways than success: the key is free at once.
func endsBadly(w *world, end func() error, want error) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	over := make(chan error, 1)
	go func() {
		defer close(over)
		defer func() { _ = recover() }()
		over <- pgcoord.Do(w.ctx, a, key, func(ctx context.Context, claim pgcoord.Claim) error {
			if err := claim.BeginFunc(ctx, counting(ctx, claim)); err != nil {
				w.Errorf("BeginFunc: %v", err)
			}
			return end()
		})
	}()
	if err := soon(w, patience, over, "Do ends"); !errors.Is(err, want) {
		w.Fatalf("Do: got %v, want %v", err, want)
	}
	next := b.try(key)
	w.usable(next)
	w.release(next)
	w.audit(key, 2)
}

func tryDoDoesNotWait(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	_, free := w.occupy(a, key)
	defer free()
	err := pgcoord.TryDo(w.ctx, b, key, func(context.Context, pgcoord.Claim) error {
		w.Error("the work of TryDo ran under another's claim")
		return nil
	})
	w.wants(err, pgcoord.ErrHeld, "TryDo of a held key")
}

func workIsTold(w *world) {
	key, a, b := w.key("k"), w.node(setup{ttl: brief, idle: brief, proxied: true}), w.node(setup{})
	var next pgcoord.Claim
	err := pgcoord.Do(w.ctx, a, key, func(ctx context.Context, _ pgcoord.Claim) error {
		next = w.takeOver(a, b, key)
		soon(w, bound, ctx.Done(), "the context of the work ends")
		w.wants(context.Cause(ctx), pgcoord.ErrLost, "cause of the end")
		return ctx.Err()
	})
	w.wants(err, pgcoord.ErrLost, "Do whose claim was lost")
	w.usable(next)
	w.release(next)
}
