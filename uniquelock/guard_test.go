package uniquelock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// openGuard runs a guarded transaction that stays open until the returned
// function is called, which returns its error.
func openGuard(t testing.TB, lease *uniquelock.Lease, sql string) func() error {
	t.Helper()
	ctx := within(t, 30*time.Second)
	inside, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- lease.BeginFunc(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
			close(inside)
			<-leave
			return nil
		})
	}()
	select {
	case <-inside:
	case err := <-done:
		t.Fatalf("the guarded transaction ended: %v", err)
	}
	return sync.OnceValue(func() error { close(leave); return <-done })
}

// Case 30: an open guard does not delay the renewal, answers tries at once, and
// is waited for by nobody in the database.
func TestOpenGuard(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	end := openGuard(t, lease, "SELECT")
	if err := lease.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	expire(t, pool, lease) // an expired holder inside a guard still holds
	if _, err := b.TryAcquire(ctx, "k"); !errors.Is(err, pgcoord.ErrHeld) {
		t.Fatalf("try under an open guard: %v", err)
	}
	waiter := async(ctx, b, "k")
	select {
	case r := <-waiter:
		t.Fatalf("granted under an open guard: %v", r.err)
	case <-time.After(200 * time.Millisecond):
	}
	if n := scan[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"); n != 0 {
		t.Errorf("%d sessions wait for a lock", n)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if r := <-waiter; r.err != nil || r.lease.Token() <= lease.Token() {
		t.Fatalf("after the guard: %+v", r)
	}
}

// Case L1: neither a hand-over in the process nor Break walks past an open guard.
func TestNoGrantPastOpenGuard(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	exec(t, pool, "CREATE TABLE writes (token bigint, at timestamptz)")
	a := newCoordinator(t, pool, uniquelock.Options{})

	// A hand-over statement sent while a transaction of the claim, unknown to this
	// process, is open on the server.
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	ghost, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer ghost.Rollback(ctx)
	if err := lease.Guard(ctx, ghost); err != nil {
		t.Fatal(err)
	}
	next := async(ctx, a, "k")
	pgtest.Eventually(t, 5*time.Second, "a waiter is in line", func() bool { return uniquelock.Waiting(a, "k") == 1 })
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-next:
		t.Fatalf("granted %+v while a guard of the old claim is open", r)
	case <-time.After(200 * time.Millisecond):
	}
	if _, err := ghost.Exec(ctx, "INSERT INTO writes VALUES ($1, clock_timestamp())", lease.Token()); err != nil {
		t.Fatal(err)
	}
	if err := ghost.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	r := <-next
	if r.err != nil {
		t.Fatal(r.err)
	}
	granted := scan[time.Time](t, pool, "SELECT locked_at FROM pgcoord.task_locks")
	if written := scan[time.Time](t, pool, "SELECT at FROM writes"); written.After(granted) {
		t.Errorf("token %d wrote at %v, after the next grant at %v", lease.Token(), written, granted)
	}

	// Break waits for the guard, with no session waiting in the database.
	end := openGuard(t, r.lease, "SELECT")
	broken := make(chan error, 1)
	go func() { broken <- a.Break(ctx, "k", "test") }()
	select {
	case err := <-broken:
		t.Fatalf("broken past an open guard: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if err := <-broken; err != nil {
		t.Fatal(err)
	}
}

// Case L2: a completion waits for a guard of the claim that is open on the server.
func TestCompleteWaitsForGuards(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	c := newCoordinator(t, pool, uniquelock.Options{})
	for _, fn := range []func(pgx.Tx) error{nil, func(pgx.Tx) error { return nil }} {
		lease := tryLock(t, c, "k", uniquelock.LockOptions{})
		ghost, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Guard(ctx, ghost); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- lease.Complete(ctx, fn) }()
		select {
		case err := <-done:
			t.Fatalf("completed while a guard is open: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		if err := ghost.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// Case L2: two processes that share a claim complete it at once: one wins, and
// there is no deadlock.
func TestTwoCompletions(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	dsn := pgtest.DSN(t)
	pool := pgtest.Pool(t, dsn)
	exec(t, pool, "CREATE TABLE effects (n int)")
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	const rounds = 10
	for range rounds {
		shared := pgcoord.WithGrantID(ctx, time.Now().String())
		x, err := a.Acquire(shared, "k")
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Acquire(shared, "k")
		if err != nil {
			t.Fatal(err)
		}
		if x.Token() != y.Token() {
			t.Fatalf("tokens %d and %d of one grant id", x.Token(), y.Token())
		}
		results := make(chan error, 2)
		for _, claim := range []pgcoord.Claim{x, y} {
			go func() {
				results <- claim.Complete(ctx, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "INSERT INTO effects VALUES (1)")
					return err
				})
			}()
		}
		one, two := <-results, <-results
		if (one == nil) == (two == nil) {
			t.Fatalf("two completions: %v, %v", one, two)
		}
		if lost := errors.Join(one, two); !errors.Is(lost, pgcoord.ErrLost) {
			t.Fatalf("the second one: %v", lost)
		}
	}
	if n := scan[int](t, pool, "SELECT count(*) FROM effects"); n != rounds {
		t.Errorf("%d effects of %d completions", n, rounds)
	}
	for _, line := range pgtest.LogErrors(t, dsn) {
		if !strings.Contains(line, "the claim is not current") {
			t.Errorf("server log: %s", line)
		}
	}
}

// Cases 36 and L1: the guard in a caller's REPEATABLE READ transaction holds
// against a heartbeat, and fails against a takeover it cannot see.
func TestGuardInOldTransaction(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	old := func() pgx.Tx {
		tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(ctx)) })
		if _, err := tx.Exec(ctx, "SELECT count(*) FROM pgcoord.task_locks"); err != nil { // takes the snapshot
			t.Fatal(err)
		}
		return tx
	}
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	tx := old()
	if err := lease.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	if err := lease.Guard(ctx, tx); err != nil {
		t.Errorf("older than a heartbeat: %v", err)
	}
	_ = tx.Rollback(ctx)

	tx = old()
	expire(t, pool, lease)
	tryLock(t, b, "k", uniquelock.LockOptions{})
	err := lease.Guard(ctx, tx)
	if !errors.Is(err, pgcoord.ErrLost) && !errors.Is(err, pgcoord.ErrConflict) {
		t.Errorf("older than a takeover: %v", err)
	}
}

// Case 26: a newer token that has not written yet stops the older one; a fence in
// the predicate alone does not.
func TestIssuedButSilent(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	exec(t, pool, "CREATE TABLE acct (id int, bal int, fencing_token bigint)")
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	older := tryLock(t, a, "k", uniquelock.LockOptions{})
	exec(t, pool, "INSERT INTO acct VALUES (1, 100, $1)", older.Token()-1)
	expire(t, pool, older)
	tryLock(t, b, "k", uniquelock.LockOptions{})
	ran := false
	err := older.BeginFunc(ctx, func(pgx.Tx) error { ran = true; return nil })
	if !errors.Is(err, pgcoord.ErrLost) || ran {
		t.Errorf("guard of the older claim: %v, ran %v", err, ran)
	}
	tag, err := pool.Exec(ctx, "UPDATE acct SET bal = bal + 1, fencing_token = $1 WHERE id = 1 AND fencing_token <= $1", older.Token())
	if err != nil || tag.RowsAffected() != 1 {
		t.Errorf("the bare row fence was expected to let it pass: %v, %v", tag, err)
	}
}
