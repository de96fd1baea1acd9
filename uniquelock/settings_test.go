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

// No verb leaves a setting on a connection of the pool, whatever the role's
// default is.
func TestSettingsStay(t *testing.T) {
	t.Parallel()
	for _, commit := range []string{"on", "off"} {
		t.Run("synchronous_commit "+commit, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 30*time.Second)
			dsn := pgtest.DSN(t)
			beside := pgtest.Pool(t, dsn)
			pool := pgtest.Pool(t, dsn, func(c *pgxpool.Config) {
				c.MaxConns = 1 // the one that is looked at
				c.ConnConfig.RuntimeParams["synchronous_commit"] = commit
			})
			settings := func() map[string]string {
				t.Helper()
				rows, err := pool.Query(ctx, "SELECT name, setting FROM pg_settings")
				if err != nil {
					t.Fatal(err)
				}
				all, name, value := map[string]string{}, "", ""
				if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { all[name] = value; return nil }); err != nil {
					t.Fatal(err)
				}
				return all
			}
			want := settings()
			eachVerb(t, ctx, newCoordinator(t, pool, uniquelock.Options{IdleLimit: time.Hour}), newCoordinator(t, beside, uniquelock.Options{}), beside,
				func(verb string, err error) {
					t.Helper()
					if err != nil {
						t.Fatalf("%s: %v", verb, err)
					}
					now := settings() // of which some are of what was loaded meanwhile
					for name, value := range want {
						if now[name] != value {
							t.Errorf("after %s: %s is %q, it was %q", verb, name, now[name], value)
						}
					}
				})
		})
	}
}

// eachVerb calls every verb of c that sends something, and check after it. Other is
// another process.
func eachVerb(t *testing.T, ctx context.Context, c, other *uniquelock.Coordinator, beside *pgxpool.Pool, check func(string, error)) {
	t.Helper()
	nothing := func(pgx.Tx) error { return nil }
	lock := func() *uniquelock.Lease {
		lease, err := c.TryLock(ctx, "k", uniquelock.LockOptions{})
		check("TryLock", err)
		return lease
	}
	lease := lock()
	check("Renew", lease.Renew(ctx))
	check("BeginFunc", lease.BeginFunc(pgcoord.WithOperation(ctx, "op"), nothing))
	if err := lease.BeginFunc(pgcoord.WithOperation(ctx, "op"), nothing); !errors.Is(err, pgcoord.ErrDone) {
		check("BeginFunc again", err)
	}
	check("BeginFunc again", nil)
	check("Release", lease.Release(ctx))
	check("Complete", lock().Complete(ctx, nil))
	check("Complete with work", lock().Complete(ctx, nothing))
	check("TryDoTx", c.TryDoTx(ctx, "k", nothing))
	check("Resolve", second(c.Resolve(ctx, "k", "another")))
	check("List", second(c.List(ctx)))
	check("Prune", second(c.Prune(ctx, uniquelock.PruneOptions{})))
	lock()
	check("Break", c.Break(ctx, "k", "test"))

	held := tryLock(t, other, "k", uniquelock.LockOptions{})
	got := async(ctx, c, "k")
	pgtest.Eventually(t, 5*time.Second, "it waits", func() bool { return waiting(t, beside, "k") == 1 })
	check("wait", held.Release(ctx))
	r := <-got
	check("Lock", r.err)
	next := async(ctx, other, "k")
	pgtest.Eventually(t, 5*time.Second, "the other waits", func() bool { return waiting(t, beside, "k") == 1 })
	check("Release to another process", r.lease.Release(ctx))
	if r := <-next; r.err != nil {
		t.Fatal(r.err)
	}
}

// Somebody who keeps the row of a claim locked is waited for, but not for ever;
// then the claim is as before.
func TestLockedRowIsGivenUp(t *testing.T) {
	t.Parallel()
	const limit = 8 * time.Second // of what gives up after 5 s
	for name, tt := range map[string]struct {
		guarded bool // the row is locked by a guard of the claim; else by a stranger
		call    func(context.Context, *uniquelock.Coordinator, *uniquelock.Lease) error
		want    error
	}{
		"complete": {true, func(ctx context.Context, _ *uniquelock.Coordinator, l *uniquelock.Lease) error {
			return l.Complete(ctx, nil)
		}, nil},
		"break": {true, func(ctx context.Context, c *uniquelock.Coordinator, _ *uniquelock.Lease) error {
			return c.Break(ctx, "k", "test")
		}, pgcoord.ErrHeld},
		"guard": {false, func(ctx context.Context, _ *uniquelock.Coordinator, l *uniquelock.Lease) error {
			return l.BeginFunc(ctx, nil)
		}, pgcoord.ErrConflict},
		"renew": {false, func(ctx context.Context, _ *uniquelock.Coordinator, l *uniquelock.Lease) error { return l.Renew(ctx) }, pgcoord.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			c := newCoordinator(t, pool, uniquelock.Options{TTL: time.Hour})
			lease := tryLock(t, c, "k", uniquelock.LockOptions{})
			var locker pgx.Tx
			if tt.guarded {
				locker = openGhost(t, pool, lease)
			} else {
				var err error
				if locker, err = pool.Begin(t.Context()); err != nil {
					t.Fatal(err)
				}
				defer locker.Rollback(t.Context())
				if _, err := locker.Exec(t.Context(), "SELECT FROM pgcoord.task_locks FOR UPDATE"); err != nil {
					t.Fatal(err)
				}
			}
			err := tt.call(within(t, limit), c, lease)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) ||
				errors.Is(err, context.DeadlineExceeded) || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
				t.Errorf("with the row locked: %v", err)
			}
			if err := locker.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := lease.BeginFunc(t.Context(), nil); err != nil {
				t.Errorf("the claim after that: %v", err)
			}
		})
	}
}

// The one-transaction form ends with its idle limit when its function stands still.
func TestIdleOneTransaction(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	c := newCoordinator(t, pool, uniquelock.Options{IdleLimit: 200 * time.Millisecond})
	err := c.TryDoTx(ctx, "k", func(tx pgx.Tx) error {
		var pid int
		if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		pgtest.Eventually(t, 5*time.Second, "the server has ended the transaction", func() bool {
			return scan[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
		})
		return nil
	})
	if err == nil || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("a transaction that was ended for being idle: %v", err)
	}
	tryLock(t, c, "k", uniquelock.LockOptions{})
}
