package uniquelock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// expire ends l in the database, as the passing of its TTL would in a process that
// does not renew.
func expire(t testing.TB, pool *pgxpool.Pool, l *uniquelock.Lease) {
	t.Helper()
	uniquelock.StopRenewal(l)
	tag, err := pool.Exec(within(t, 10*time.Second),
		"UPDATE pgcoord.task_locks SET expires_at = clock_timestamp() - interval '1 second' WHERE task_name = $1 AND token = $2", l.Key(), l.Token())
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("expire: %v, %v", tag, err)
	}
}

// remaining returns what is left of key's lease on the database's clock.
func remaining(t testing.TB, pool *pgxpool.Pool, key string) time.Duration {
	t.Helper()
	return time.Duration(scan[float64](t, pool,
		"SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM pgcoord.task_locks WHERE task_name = $1", key) * float64(time.Second))
}

func tryLock(t testing.TB, c *uniquelock.Coordinator, key string, lo uniquelock.LockOptions) *uniquelock.Lease {
	t.Helper()
	lease, err := c.TryLock(within(t, 10*time.Second), key, lo)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// Case 12: who is first, the renewal or the thief, decides; an expired lease that
// nobody took lives on.
func TestRenewAgainstSteal(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})

	first := tryLock(t, a, "k", uniquelock.LockOptions{})
	expire(t, pool, first)
	if err := first.Renew(ctx); err != nil {
		t.Fatalf("renewal of an expired lease that nobody took: %v", err)
	}
	if _, err := b.TryLock(ctx, "k", uniquelock.LockOptions{}); !errors.Is(err, pgcoord.ErrHeld) {
		t.Fatalf("steal after the renewal: %v", err)
	}
	expire(t, pool, first)
	second := tryLock(t, b, "k", uniquelock.LockOptions{})
	before := remaining(t, pool, "k")
	if err := first.Renew(ctx); !errors.Is(err, pgcoord.ErrLost) {
		t.Fatalf("renewal after the steal: %v", err)
	}
	if after := remaining(t, pool, "k"); after > before {
		t.Errorf("the late renewal moved the end from %v to %v", before, after)
	}
	<-first.Lost()
	if err := first.Release(ctx); !errors.Is(err, pgcoord.ErrLost) { // case 13
		t.Errorf("release after the steal: %v", err)
	}
	if err := second.Renew(ctx); err != nil {
		t.Errorf("the thief's renewal: %v", err)
	}
}

// Case R6: a renewal never makes a row.
func TestRenewNeverInserts(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	lease := tryLock(t, newCoordinator(t, pool, uniquelock.Options{}), "k", uniquelock.LockOptions{})
	exec(t, pool, "DELETE FROM pgcoord.task_locks")
	if err := lease.Renew(ctx); !errors.Is(err, pgcoord.ErrLost) {
		t.Fatalf("renewal of a row that is gone: %v", err)
	}
	if n := scan[int](t, pool, "SELECT count(*) FROM pgcoord.task_locks"); n != 0 {
		t.Fatalf("%d rows", n)
	}
}

// The background renewal keeps leases of different TTLs alive, in few statements,
// also while the pool is used up (case 20).
func TestRenewalWithoutPool(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	dsn := pgtest.DSN(t)
	watch := pgtest.Pool(t, dsn)
	pool := pgtest.Pool(t, dsn, func(c *pgxpool.Config) { c.MaxConns = 2 })
	c := newCoordinator(t, pool, uniquelock.Options{TTL: 600 * time.Millisecond})
	x := tryLock(t, c, "x", uniquelock.LockOptions{})
	y := tryLock(t, c, "y", uniquelock.LockOptions{TTL: 900 * time.Millisecond})
	release := make(chan struct{})
	both := make(chan error, 2)
	for _, l := range []*uniquelock.Lease{x, y} {
		go func() {
			both <- l.BeginFunc(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0")
				<-release
				return err
			})
		}()
	}
	start := time.Now()
	pgtest.Eventually(t, 10*time.Second, "three TTLs have passed", func() bool {
		select {
		case <-x.Lost():
			t.Fatal("x was lost")
		case <-y.Lost():
			t.Fatal("y was lost")
		default:
		}
		return time.Since(start) > 3*900*time.Millisecond
	})
	if left := min(remaining(t, watch, "x"), remaining(t, watch, "y")); left <= 0 {
		t.Errorf("a lease is over in the database: %v", left)
	}
	// A guard that needs a connection of the used-up pool ends with its context.
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := x.BeginFunc(short, func(pgx.Tx) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("guard without a connection: %v", err)
	}
	close(release)
	for range 2 {
		if err := <-both; err != nil {
			t.Error(err)
		}
	}
}

// Case L5: a stranger's lock on one row delays neither the other renewals nor
// loses the one.
func TestRenewalSkipsLockedRow(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	c := newCoordinator(t, pool, uniquelock.Options{TTL: 2 * time.Second})
	locked := tryLock(t, c, "a", uniquelock.LockOptions{})
	free := tryLock(t, c, "b", uniquelock.LockOptions{})
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "SELECT FROM pgcoord.task_locks WHERE task_name = 'a' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	end := scan[time.Time](t, pool, "SELECT expires_at FROM pgcoord.task_locks WHERE task_name = 'b'")
	pgtest.Eventually(t, 5*time.Second, "the free one is renewed", func() bool {
		return scan[time.Time](t, pool, "SELECT expires_at FROM pgcoord.task_locks WHERE task_name = 'b'").After(end)
	})
	if left := remaining(t, pool, "b"); left < 1800*time.Millisecond {
		t.Errorf("the renewal gave %v of 2 s", left)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	end = scan[time.Time](t, pool, "SELECT expires_at FROM pgcoord.task_locks WHERE task_name = 'a'")
	pgtest.Eventually(t, 5*time.Second, "the locked one is renewed too", func() bool {
		return scan[time.Time](t, pool, "SELECT expires_at FROM pgcoord.task_locks WHERE task_name = 'a'").After(end)
	})
	for _, l := range []*uniquelock.Lease{locked, free} {
		select {
		case <-l.Lost():
			t.Errorf("%s was lost", l.Key())
		default:
		}
	}
}

// Case 18: one round of renewals fails with its connection; no lease is lost.
func TestRenewalSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	c := newCoordinator(t, pool, uniquelock.Options{TTL: 1500 * time.Millisecond})
	lease := tryLock(t, c, "k", uniquelock.LockOptions{})
	for range 3 {
		end := scan[time.Time](t, pool, "SELECT expires_at FROM pgcoord.task_locks")
		pgtest.Eventually(t, 5*time.Second, "a renewal", func() bool {
			return scan[time.Time](t, pool, "SELECT expires_at FROM pgcoord.task_locks").After(end)
		})
		exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE '%ORDER BY t.task_name FOR NO KEY UPDATE%' AND pid <> pg_backend_pid()`)
	}
	select {
	case <-lease.Lost():
		t.Fatal("lost")
	default:
	}
}

// Case 10 (a): the end of a lease is computed when it is granted, not before a wait.
func TestFullLeaseAfterLockedRow(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{TTL: time.Second})
	expire(t, pool, tryLock(t, a, "k", uniquelock.LockOptions{}))
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "SELECT FROM pgcoord.task_locks WHERE task_name = 'k' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	got := async(ctx, b, "k")
	select {
	case r := <-got:
		t.Fatalf("granted under a stranger's lock: %v", r.err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	if left := remaining(t, pool, "k"); left < 900*time.Millisecond {
		t.Errorf("%v left of 1 s", left)
	}
}

// Case 22: another process's shorter TTL does not end this one's lease.
func TestTTLIsTheHolders(t *testing.T) {
	t.Parallel()
	ctx := within(t, 10*time.Second)
	pool := newPool(t)
	tryLock(t, newCoordinator(t, pool, uniquelock.Options{}), "k", uniquelock.LockOptions{})
	exec(t, pool, "UPDATE pgcoord.task_locks SET locked_at = locked_at - interval '2 seconds', expires_at = expires_at - interval '2 seconds'")
	b := newCoordinator(t, pool, uniquelock.Options{TTL: time.Second})
	if _, err := b.TryAcquire(ctx, "k"); !errors.Is(err, pgcoord.ErrHeld) {
		t.Fatal(err)
	}
}

// Ensure renews only when it must, and Remaining counts down.
func TestEnsure(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	lease := tryLock(t, newCoordinator(t, pool, uniquelock.Options{}), "k", uniquelock.LockOptions{})
	if left := lease.Remaining(); left <= 29*time.Second || left > 30*time.Second {
		t.Errorf("remaining %v", left)
	}
	end := scan[time.Time](t, pool, "SELECT expires_at FROM pgcoord.task_locks")
	if err := lease.Ensure(ctx, time.Second); err != nil {
		t.Fatal(err)
	}
	if now := scan[time.Time](t, pool, "SELECT expires_at FROM pgcoord.task_locks"); !now.Equal(end) {
		t.Error("renewed without need")
	}
	if err := lease.Ensure(ctx, 30*time.Second-time.Nanosecond); err == nil {
		if now := scan[time.Time](t, pool, "SELECT expires_at FROM pgcoord.task_locks"); !now.After(end) {
			t.Error("not renewed")
		}
	} else if !errors.Is(err, pgcoord.ErrLost) { // a slow machine may not make it
		t.Error(err)
	}
	if err := lease.Ensure(ctx, time.Minute); err == nil || errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("more than the TTL: %v", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if lease.Remaining() != 0 {
		t.Error("a released lease has time left")
	}
}

// A short job keeps its key for the minimum hold, and no longer.
func TestMinHold(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	for name, end := range map[string]func(*uniquelock.Lease) error{
		"release":  func(l *uniquelock.Lease) error { return l.Release(ctx) },
		"complete": func(l *uniquelock.Lease) error { return l.Complete(ctx, nil) },
		"complete with work": func(l *uniquelock.Lease) error {
			return l.Complete(ctx, func(pgx.Tx) error { return nil })
		},
	} {
		lease := tryLock(t, a, name, uniquelock.LockOptions{MinHold: time.Second})
		waiter := async(ctx, b, name)
		pgtest.Eventually(t, 5*time.Second, "B waits", func() bool { return uniquelock.Waiting(b, name) == 1 })
		start := time.Now()
		if err := end(lease); err != nil {
			t.Fatal(name, err)
		}
		if _, err := a.TryLock(ctx, name, uniquelock.LockOptions{}); !errors.Is(err, pgcoord.ErrHeld) {
			t.Errorf("%s: taken within the minimum hold: %v", name, err)
		}
		r := <-waiter
		if r.err != nil {
			t.Fatal(name, r.err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: the waiter took %v", name, took)
		}
	}
}

// Case 57: renewals, grants and releases are heap-only updates, and the table
// stays small.
func TestHeapOnlyUpdates(t *testing.T) {
	t.Parallel()
	ctx := within(t, 5*time.Minute)
	// A server of its own: an old transaction of any database delays the pruning.
	server := pgtest.Dedicated(t, localpg.Options{Settings: map[string]string{"fsync": "off"}})
	pool := pgtest.Pool(t, pgtest.DSNOn(t, server))
	c := newCoordinator(t, pool, uniquelock.Options{})
	lease := tryLock(t, c, "k", uniquelock.LockOptions{})
	for range 8000 {
		if err := lease.Renew(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if err := tryLock(t, c, "k", uniquelock.LockOptions{}).Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var hot, updates int64
	pgtest.Eventually(t, 20*time.Second, "the statistics are in", func() bool {
		row := pool.QueryRow(ctx, "SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'task_locks'")
		if err := row.Scan(&hot, &updates); err != nil {
			t.Fatal(err)
		}
		return updates >= 9000
	})
	size := scan[int64](t, pool, "SELECT pg_relation_size('pgcoord.task_locks')")
	t.Logf("%d of %d updates heap-only, table of %d bytes", hot, updates, size)
	if hot*100 < updates*99 || size > 64<<10 {
		t.Errorf("%d of %d updates were heap-only, the table has %d bytes", hot, updates, size)
	}
}
