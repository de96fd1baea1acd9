package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// cancelChecks prove S13: a cancelled call returns soon and leaves nothing. What
// it might leave running is looked for at the end of each check and of Run.
var cancelChecks = []check{
	{clause: "S13", name: "before_the_call", run: cancelledBefore},
	{clause: "S13", name: "while_waiting", run: cancelledWaiting},
	{clause: "S13", name: "at_any_moment_of_acquire", run: cancelledAcquiring},
	{clause: "S13", name: "at_the_moment_of_release", run: cancelledAtRelease},
	{clause: "S13", name: "inside_guard", run: func(w *world) { cancelledInside(w, pgcoord.Claim.BeginFunc) }},
	{clause: "S13", name: "inside_complete", run: func(w *world) { cancelledInside(w, pgcoord.Claim.Complete) }},
	{clause: "S13", name: "release_after_cancel", run: releaseAfterCancel},
	{clause: "S13", name: "frozen_connection", run: frozenConnection},
}

func (w *world) cancelled() context.Context {
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	return ctx
}

func cancelledBefore(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	_, err := a.TryAcquire(w.cancelled(), key)
	w.wants(err, context.Canceled, "TryAcquire")
	_, err = a.Acquire(w.cancelled(), key)
	w.wants(err, context.Canceled, "Acquire")
	claim := b.try(key)
	w.wants(claim.BeginFunc(w.cancelled(), counting(w.ctx, claim)), context.Canceled, "BeginFunc")
	w.wants(claim.Complete(w.cancelled(), counting(w.ctx, claim)), context.Canceled, "Complete")
	_, err = a.Resolve(w.cancelled(), key, "op")
	w.wants(err, context.Canceled, "Resolve")
	w.usable(claim)
	w.release(claim)
	w.audit(key, 1)
}

func cancelledWaiting(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	_, free := w.occupy(a, key)
	var waiting []<-chan error
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	for range 5 {
		waiting = append(waiting, async(w, func() error {
			_, err := b.Acquire(ctx, key)
			return err
		}))
	}
	stays := async(w, func() error {
		claim, err := b.Acquire(w.ctx, key)
		if err != nil {
			return err
		}
		return claim.Release(w.ctx)
	})
	b.heldFor(200*time.Millisecond, key)
	cancel()
	for _, done := range waiting {
		w.wants(soon(w, slack, done, "a cancelled Acquire returns"), context.Canceled, "a cancelled Acquire")
	}
	free()
	w.must(soon(w, slack, stays, "the waiter that was not cancelled gets the key"), "Acquire")
	w.release(a.acquireWithin(slack, key))
}

// cancelledAcquiring ends calls after every short time that may fall into one of
// their steps.
func cancelledAcquiring(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	verbs := []func(context.Context, string) (pgcoord.Claim, error){a.TryAcquire, a.Acquire}
	for i := range 60 {
		limit := time.Duration(i/2) * 100 * time.Microsecond
		claim, err := verbs[i%2](w.within(limit), key)
		if err == nil {
			w.release(claim)
		} else {
			w.wants(err, context.DeadlineExceeded, "an acquire that was cut short")
		}
		// A claim that was half won is given back, not left to its TTL.
		pgtest.Eventually(w, slack, "the key is free again", func() bool {
			claim, err := b.TryAcquire(w.ctx, key)
			return err == nil && claim.Release(w.ctx) == nil
		})
	}
}

// cancelledAtRelease ends waiting calls when the key is just being passed on to
// one of them.
func cancelledAtRelease(w *world) { // R2
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	for round := range 40 {
		w.cancelAtRelease(a, b, key, time.Duration(round)*100*time.Microsecond)
	}
	w.release(b.acquireWithin(slack, key))
}

func (w *world) cancelAtRelease(a, b *node, key string, after time.Duration) {
	w.Helper()
	claim := a.acquireWithin(slack, key)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var waiting []<-chan error
	for _, n := range []*node{a, a, b} {
		waiting = append(waiting, async(w, func() error { return w.passOn(ctx, n, key) }))
	}
	pause(w.ctx, 10*time.Millisecond) // so that some of them wait
	stop := time.AfterFunc(after, cancel)
	defer stop.Stop()
	w.mayBeLost(claim.Release(w.ctx), "Release")
	for _, done := range waiting {
		w.must(soon(w, slack, done, "Acquire returns"), "Acquire at the moment of a release")
	}
}

// passOn waits for key and releases it, unless ctx ends.
func (w *world) passOn(ctx context.Context, n *node, key string) error {
	claim, err := n.Acquire(ctx, key)
	switch {
	case errors.Is(err, context.Canceled):
		return nil
	case err != nil:
		return err
	}
	w.mayBeLost(claim.Release(w.ctx), "Release")
	return nil
}

// mayBeLost lets pass what has been superseded, where that can be.
func (w *world) mayBeLost(err error, what string) {
	w.Helper()
	if err != nil && !(w.strategy.Supersedes && errors.Is(err, pgcoord.ErrLost)) {
		w.Errorf("%s: %v", what, err)
	}
}

func cancelledInside(w *world, call func(pgcoord.Claim, context.Context, func(pgx.Tx) error) error) {
	key, a, b := w.key("k"), w.node(setup{ttl: long}), w.node(setup{})
	claim := a.try(key)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	result := async(w, func() error {
		return call(claim, ctx, func(tx pgx.Tx) error {
			if err := counting(ctx, claim)(tx); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
			return err
		})
	})
	w.sleeps(a)
	cancel()
	w.wants(soon(w, slack, result, "a cancelled call returns"), context.Canceled, "a cancelled call")
	if w.strategy.DurableGuards { // a definite failure leaves the claim as before
		w.usable(claim)
		w.release(claim)
	} else {
		_ = claim.Release(w.ctx) // its connection may have ended with the statement
		next := b.acquireWithin(slack, key)
		w.usable(next)
		w.release(next)
	}
	w.audit(key, 1)
}

// sleeps returns when a statement of n sleeps on the server.
func (w *world) sleeps(n *node) {
	w.Helper()
	pgtest.Eventually(w, patience, n.name+" is in pg_sleep", func() bool {
		var sleeps bool
		err := w.admin.QueryRow(w.ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1 AND wait_event = 'PgSleep')`, n.name).Scan(&sleeps)
		return err == nil && sleeps
	})
}

func releaseAfterCancel(w *world) { // R1
	a, b := w.node(setup{}), w.node(setup{})
	for _, key := range []string{w.key("k1"), w.key("k2"), w.key("k3")} {
		claim := a.try(key)
		w.add(claim)
		if err := claim.Release(w.cancelled()); err != nil {
			w.wants(err, context.Canceled, "Release with a context that has ended")
			w.must(claim.Release(w.ctx), "Release again")
		}
		w.release(b.try(key))
		w.audit(key, 1)
	}
}

// frozenConnection ends calls on a connection that does not answer any more.
func frozenConnection(w *world) {
	key, a, b := w.key("k"), w.node(setup{ttl: brief, idle: brief, proxied: true}), w.node(setup{})
	claim := a.try(key)
	a.proxy.Freeze()
	calls := map[string]func(context.Context) error{
		"TryAcquire": func(ctx context.Context) error { _, err := a.TryAcquire(ctx, "another"); return err },
		"Acquire":    func(ctx context.Context) error { _, err := a.Acquire(ctx, "another"); return err },
		"BeginFunc":  func(ctx context.Context) error { return claim.BeginFunc(ctx, w.never) },
		"Release":    func(ctx context.Context) error { return claim.Release(ctx) },
		"Resolve":    func(ctx context.Context) error { _, err := a.Resolve(ctx, key, "op"); return err },
	}
	for name, call := range calls {
		done := async(w, func() error { return call(w.within(50 * time.Millisecond)) })
		err := soon(w, slack, done, name+" on a frozen connection returns when its context ends")
		if err == nil {
			w.Fatalf("%s on a frozen connection has succeeded", name)
		}
	}
	w.release(b.acquireWithin(bound, key))
	a.proxy.Thaw()
}
