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

// openGhost opens a guarded transaction of lease of which its process does not
// know, as one whose reply was lost.
func openGhost(t *testing.T, pool *pgxpool.Pool, lease *uniquelock.Lease) pgx.Tx {
	t.Helper()
	ctx := within(t, 30*time.Second)
	ghost, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ghost.Rollback(context.WithoutCancel(ctx)) })
	if err := lease.Guard(ctx, ghost); err != nil {
		t.Fatal(err)
	}
	return ghost
}

// Case L1: a release with waiters in other processes does not grant past an open
// guard; it frees the key.
func TestPassSkipsOpenGuard(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	next := async(ctx, b, "k")
	pgtest.Eventually(t, 5*time.Second, "another process waits", func() bool { return waiting(t, pool, "k") == 1 })
	ghost := openGhost(t, pool, lease)
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if scan[bool](t, pool, "SELECT held FROM pgcoord.task_locks") || len(next) > 0 {
		t.Error("granted while a guard of the old claim is open")
	}
	if err := ghost.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if r := <-next; r.err != nil {
		t.Error(r.err)
	}
}

// The one-transaction form takes nothing while a guard of the old claim is open.
func TestOneTransactionSkipsOpenGuard(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	ghost := openGhost(t, pool, lease)
	expire(t, pool, lease)
	err := b.TryDoTx(ctx, "k", func(pgx.Tx) error { t.Error("the work ran under an open guard"); return nil })
	if !errors.Is(err, pgcoord.ErrHeld) {
		t.Errorf("under an open guard: %v", err)
	}
	if err := ghost.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.TryDoTx(ctx, "k", nil); err != nil {
		t.Errorf("after the guard: %v", err)
	}
}

// A snapshot that is older than the grant does not show what the claims before
// have written: the guard refuses it, and the claim stands (S4).
func TestGuardOlderThanItsGrant(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	exec(t, pool, "CREATE TABLE effects (n int)")
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	before := tryLock(t, a, "k", uniquelock.LockOptions{})
	old, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback(ctx)
	if _, err := old.Exec(ctx, "SELECT count(*) FROM effects"); err != nil { // takes the snapshot
		t.Fatal(err)
	}
	if err := before.Complete(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES (1)")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	lease := tryLock(t, b, "k", uniquelock.LockOptions{})
	if err := lease.Guard(ctx, old); !errors.Is(err, pgcoord.ErrConflict) {
		t.Errorf("guard in a transaction older than the grant: %v", err)
	}
	if err := lease.BeginFunc(ctx, nil); err != nil {
		t.Errorf("the claim after that: %v", err)
	}
}

// Cases 05 and 11: whatever isolation the role has by default, statements see what
// is committed when they begin, and no row that changed while they waited fails one.
func TestOtherIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 30*time.Second)
			dsn := pgtest.DSN(t)
			beside := pgtest.Pool(t, dsn)
			exec(t, beside, "CREATE TABLE effects (n int)")
			pool := pgtest.Pool(t, dsn, func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			})
			c := newCoordinator(t, pool, uniquelock.Options{})
			lease := tryLock(t, c, "k", uniquelock.LockOptions{})
			effects := -1
			if err := lease.BeginFunc(ctx, func(tx pgx.Tx) error {
				exec(t, beside, "INSERT INTO effects VALUES (1)")
				return tx.QueryRow(ctx, "SELECT count(*) FROM effects").Scan(&effects)
			}); err != nil || effects != 1 {
				t.Errorf("a guarded transaction sees %d effects of 1: %v", effects, err)
			}
			completeWhileRowChanges(t, ctx, beside, lease)
			if errs := pgtest.LogErrors(t, dsn); len(errs) > 0 {
				t.Errorf("the server logged %v", errs)
			}
		})
	}
}

// completeWhileRowChanges has a completion wait for the row, which is renewed
// meanwhile.
func completeWhileRowChanges(t *testing.T, ctx context.Context, beside *pgxpool.Pool, lease *uniquelock.Lease) {
	t.Helper()
	ghost := openGhost(t, beside, lease)
	done := make(chan error, 1)
	go func() { done <- lease.Complete(ctx, nil) }()
	pgtest.Eventually(t, 5*time.Second, "the completion waits", func() bool {
		return scan[int](t, beside, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	})
	if err := lease.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	if err := ghost.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("complete: %v", err)
	}
}

// What a function has kept of its transaction is of no use after its return: the
// connection belongs to others.
func TestTransactionEndsWithItsFunction(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	c := newCoordinator(t, newPool(t), uniquelock.Options{})
	lease := tryLock(t, c, "k", uniquelock.LockOptions{})
	var kept pgx.Tx
	if err := lease.BeginFunc(ctx, func(tx pgx.Tx) error { kept = tx; return nil }); err != nil {
		t.Fatal(err)
	}
	var n int
	for verb, err := range map[string]error{
		"Begin":     second(kept.Begin(ctx)),
		"Exec":      second(kept.Exec(ctx, "SELECT 1")),
		"Query":     second(kept.Query(ctx, "SELECT 1")),
		"QueryRow":  kept.QueryRow(ctx, "SELECT 1").Scan(&n),
		"CopyFrom":  second(kept.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"c"}, pgx.CopyFromRows(nil))),
		"SendBatch": kept.SendBatch(ctx, &pgx.Batch{QueuedQueries: []*pgx.QueuedQuery{{SQL: "SELECT 1"}}}).Close(),
		"Prepare":   second(kept.Prepare(ctx, "kept", "SELECT 1")),
	} {
		if !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s after the return: %v", verb, err)
		}
	}
}

// Case L2: of two processes that share a claim and complete it, the second does not
// begin before the first has ended: each would wait for the other's guard.
func TestSecondCompletionWaits(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	shared := pgcoord.WithGrantID(ctx, "shared")
	first, err := newCoordinator(t, pool, uniquelock.Options{}).Acquire(shared, "k")
	if err != nil {
		t.Fatal(err)
	}
	second, err := newCoordinator(t, pool, uniquelock.Options{}).Acquire(shared, "k")
	if err != nil {
		t.Fatal(err)
	}
	ran, done := make(chan struct{}), make(chan error, 1)
	if err := first.Complete(ctx, func(pgx.Tx) error {
		go func() { done <- second.Complete(ctx, func(pgx.Tx) error { close(ran); return nil }) }()
		pgtest.Eventually(t, 5*time.Second, "the second waits, or runs", func() bool {
			select {
			case <-ran:
				return true
			default:
			}
			return scan[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'") == 1
		})
		return nil
	}); err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := <-done; !errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("the second: %v", err)
	}
	select {
	case <-ran:
		t.Error("the work of the second ran")
	default:
	}
}
