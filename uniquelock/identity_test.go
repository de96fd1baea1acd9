package uniquelock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// stale is a claim that is not current any more, of which its process has not
// heard.
type stale struct {
	*uniquelock.Lease
	t    *testing.T
	ctx  context.Context
	pool *pgxpool.Pool
	c    *uniquelock.Coordinator
}

// lates are the calls that the holder of a stale claim may still make.
var lates = map[string]func(stale) error{
	"guard":    func(s stale) error { return s.BeginFunc(s.ctx, nil) },
	"renew":    func(s stale) error { return s.Renew(s.ctx) },
	"release":  func(s stale) error { return s.Release(s.ctx) },
	"complete": func(s stale) error { return s.Complete(s.ctx, nil) },
	"complete with work": func(s stale) error {
		return s.Complete(s.ctx, func(pgx.Tx) error { s.t.Error("the work ran"); return nil })
	},
	"guard in a transaction": func(s stale) error {
		return pgx.BeginFunc(s.ctx, s.pool, func(tx pgx.Tx) error { return s.Guard(s.ctx, tx) })
	},
	"hand-over": func(s stale) error {
		waitCtx, cancel := context.WithCancel(s.ctx)
		next := async(waitCtx, s.c, s.Key())
		s.t.Cleanup(func() {
			cancel()
			if r := <-next; r.err == nil {
				s.t.Errorf("the late release has handed token %d over", r.lease.Token())
			}
		})
		pgtest.Eventually(s.t, 5*time.Second, "a waiter is in line", func() bool { return uniquelock.Waiting(s.c, s.Key()) == 1 })
		return s.Release(s.ctx)
	},
}

// Case 13 and its kind: a call matches the exact claim, or touches nothing: the
// same claim id with another token (a grant id that was used twice), the same
// token with another claim id (a number that was given twice), and the claim
// itself after its end, by another process that shares it.
func TestLateCalls(t *testing.T) {
	t.Parallel()
	for change, set := range map[string]string{
		"another token":    "token = token + 1",
		"another claim id": "claim_id = 'another'",
		"ended":            "held = false, ended_at = clock_timestamp()",
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			for verb, call := range lates {
				t.Run(verb, func(t *testing.T) {
					c := newCoordinator(t, pool, uniquelock.Options{TTL: time.Hour})
					s := stale{tryLock(t, c, verb, uniquelock.LockOptions{}), t, within(t, 20*time.Second), pool, c}
					exec(t, pool, "UPDATE pgcoord.task_locks SET "+set+" WHERE task_name = $1", verb)
					before := claimIn(t, pool, verb)
					err := call(s)
					// Its own end is what a release finds that is sent again.
					nothing := change == "ended" && (verb == "release" || verb == "hand-over")
					if nothing != (err == nil) || err != nil && !errors.Is(err, pgcoord.ErrLost) {
						t.Errorf("a late call: %v", err)
					}
					if after := claimIn(t, pool, verb); after != before {
						t.Errorf("a late call has changed the row\nfrom %s\nto   %s", before, after)
					}
				})
			}
		})
	}
}

// claimIn returns what the row of key tells of a claim.
func claimIn(t *testing.T, pool *pgxpool.Pool, key string) string {
	t.Helper()
	return scan[string](t, pool, `SELECT (token, claim_id, held, expires_at, hold_until, ended_at, done_token, done_at)::text
		FROM pgcoord.task_locks WHERE task_name = $1`, key)
}

// The holder has not heard that its claim was broken when it releases: it is told.
func TestReleaseAfterAnUnheardBreak(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	uniquelock.StopRenewal(lease)
	if err := b.Break(ctx, "k", "stuck"); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(ctx); !errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("release of a broken claim: %v", err)
	}
}

// A waiter that leaves gives up its own place, and nobody else's.
func TestOthersKeepTheirPlace(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	a := newCoordinator(t, pool, uniquelock.Options{})
	leaver, stayer := newCoordinator(t, pool, uniquelock.Options{Holder: "leaver"}), newCoordinator(t, pool, uniquelock.Options{Holder: "stayer"})
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	leaverCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	leaves, stays := async(leaverCtx, leaver, "k"), async(ctx, stayer, "k")
	pgtest.Eventually(t, 5*time.Second, "both wait", func() bool { return waiting(t, pool, "k") == 2 })
	cancel()
	<-leaves
	pgtest.Eventually(t, 5*time.Second, "one has left", func() bool { return waiting(t, pool, "k") < 2 })
	if holders := scan[[]string](t, pool, "SELECT coalesce(array_agg(holder), '{}') FROM pgcoord.task_waiters"); len(holders) != 1 || holders[0] != "stayer" {
		t.Errorf("who waits is %v", holders)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if r := <-stays; r.err != nil {
		t.Error(r.err)
	}
}
