package uniquelock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// Break fences the holder off, tells it at once and with the reason, and frees the
// key for who waits.
func TestBreak(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{Holder: "A"}), newCoordinator(t, pool, uniquelock.Options{Holder: "B"})
	if err := b.Break(ctx, "k", "nobody"); !errors.Is(err, pgcoord.ErrNotFound) {
		t.Errorf("no row: %v", err)
	}
	lease := tryLock(t, a, "k", uniquelock.LockOptions{MinHold: time.Hour})
	waiter := async(ctx, b, "k")
	pgtest.Eventually(t, 5*time.Second, "A listens", func() bool {
		return scan[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'") >= 1
	})
	pgtest.Eventually(t, 5*time.Second, "B waits", func() bool { return waiting(t, pool, "k") == 1 })
	c := newCoordinator(t, pool, uniquelock.Options{})
	if err := c.Break(ctx, "k", "stuck on shard 7"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Lost(): // long before its renewal in 10 s
	case <-time.After(5 * time.Second):
		t.Error("the holder was not told")
	}
	if err := lease.BeginFunc(ctx, nil); !errors.Is(err, pgcoord.ErrLost) || !strings.Contains(err.Error(), "stuck on shard 7") {
		t.Errorf("guard after the break: %v", err)
	}
	if err := lease.Release(ctx); !errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("release after the break: %v", err)
	}
	r := <-waiter
	if r.err != nil || r.lease.Token() <= lease.Token() {
		t.Fatalf("waiter: %+v", r)
	}
	if err := r.lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Break(ctx, "k", "free"); !errors.Is(err, pgcoord.ErrNotFound) {
		t.Errorf("free key: %v", err)
	}
}

// List tells what the view pgcoord.held shows.
func TestList(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{Holder: "A"}), newCoordinator(t, pool, uniquelock.Options{})
	if all, err := a.List(ctx); err != nil || len(all) != 0 {
		t.Fatalf("empty: %v, %v", all, err)
	}
	first := tryLock(t, a, "x", uniquelock.LockOptions{Metadata: map[string]string{"job": "nightly", "quote": `"\`}})
	second := tryLock(t, a, "y", uniquelock.LockOptions{TTL: time.Minute})
	async(ctx, b, "x")
	pgtest.Eventually(t, 5*time.Second, "B waits", func() bool { return waiting(t, pool, "x") == 1 })
	all, err := a.List(ctx)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	x, y := all[0], all[1]
	if x.Key != "x" || x.Token != first.Token() || x.Holder != "A" || x.Waiters != 1 ||
		x.Metadata["job"] != "nightly" || x.Metadata["quote"] != `"\` || x.Age <= 0 || x.Age > time.Minute {
		t.Errorf("x: %+v", x)
	}
	if d := y.Until.Sub(y.Since); y.Key != "y" || d < 59*time.Second || d > 61*time.Second || y.Waiters != 0 {
		t.Errorf("y: %+v", y)
	}
	expire(t, pool, second)
	if all, _ := a.List(ctx); len(all) != 1 {
		t.Errorf("an expired lease is listed: %v", all)
	}
}

// Case 15: tokens grow over release, takeover and prune, also where rows are
// deleted by hand.
func TestPrune(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	c := newCoordinator(t, pool, uniquelock.Options{})
	once := newCoordinator(t, pool, uniquelock.Options{Once: true})
	var last int64
	grant := func(after string) *uniquelock.Lease {
		lease := tryLock(t, c, "k", uniquelock.LockOptions{})
		if lease.Token() <= last {
			t.Fatalf("after %s: token %d, the last was %d", after, lease.Token(), last)
		}
		last = lease.Token()
		return lease
	}
	release := func(l *uniquelock.Lease) {
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	age := func() {
		exec(t, pool, `UPDATE pgcoord.task_locks SET locked_at = locked_at - interval '1 hour', ended_at = ended_at - interval '1 hour',
			done_at = done_at - interval '1 hour'`)
		exec(t, pool, "UPDATE pgcoord.operations SET decided_at = decided_at - interval '1 hour'")
	}
	prune := func(o uniquelock.PruneOptions, keys, operations int64) {
		t.Helper()
		got, err := c.Prune(ctx, o)
		if err != nil || got.Keys != keys || got.Operations != operations {
			t.Fatalf("prune: %+v, %v; want %d keys, %d operations", got, err, keys, operations)
		}
	}
	release(grant("nothing"))
	held := grant("a release")
	age()
	prune(uniquelock.PruneOptions{Free: time.Minute}, 0, 0) // it is held
	release(held)
	prune(uniquelock.PruneOptions{Free: time.Minute}, 0, 0) // too young
	age()
	prune(uniquelock.PruneOptions{Free: time.Minute}, 1, 0)
	release(grant("a prune"))
	exec(t, pool, "DELETE FROM pgcoord.task_locks")
	release(grant("a delete by hand"))
	exec(t, pool, "TRUNCATE pgcoord.task_locks")
	release(grant("a truncate by hand"))

	done := tryLock(t, once, "done", uniquelock.LockOptions{})
	if err := done.Complete(pgcoord.WithOperation(ctx, "op"), nil); err != nil {
		t.Fatal(err)
	}
	age()
	prune(uniquelock.PruneOptions{Free: time.Minute}, 1, 0) // k; the mark stays
	if _, err := once.TryAcquire(ctx, "done"); !errors.Is(err, pgcoord.ErrDone) {
		t.Fatal(err)
	}
	prune(uniquelock.PruneOptions{Free: time.Minute, Done: time.Minute, Operations: time.Minute}, 1, 1)
	tryLock(t, once, "done", uniquelock.LockOptions{})

	for _, o := range []uniquelock.PruneOptions{{Free: time.Second}, {Done: -time.Hour}, {Operations: time.Nanosecond}} {
		if _, err := c.Prune(ctx, o); err == nil || !strings.Contains(err.Error(), "PruneOptions.") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Case 38: what claims rest on is looked at; each fault is told with its cure, and
// where it matters nothing is granted.
func TestVerify(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	for _, fault := range []struct {
		name, sql, cure string
	}{
		{"cache", "ALTER SEQUENCE pgcoord.fencing_token_seq CACHE 20", "CACHE 1"},
		{"cycle", "ALTER SEQUENCE pgcoord.fencing_token_seq CYCLE", "NO CYCLE"},
		{"integer", "ALTER SEQUENCE pgcoord.fencing_token_seq AS integer MAXVALUE 2147483647", "AS bigint"},
		{"increment", "ALTER SEQUENCE pgcoord.fencing_token_seq INCREMENT 2", "INCREMENT 1"},
		{"unlogged", "ALTER TABLE pgcoord.task_locks SET UNLOGGED", "SET LOGGED"},
		{"no key", "ALTER TABLE pgcoord.task_locks DROP CONSTRAINT task_locks_pkey", "ADD PRIMARY KEY"},
		{"deferrable key", `ALTER TABLE pgcoord.task_locks DROP CONSTRAINT task_locks_pkey,
			ADD PRIMARY KEY (task_name) DEFERRABLE`, "ADD PRIMARY KEY"},
		{"partial key", `ALTER TABLE pgcoord.task_locks DROP CONSTRAINT task_locks_pkey;
			CREATE UNIQUE INDEX ON pgcoord.task_locks (task_name) WHERE held`, "ADD PRIMARY KEY"},
		{"timestamp", `DROP VIEW pgcoord.held; ALTER TABLE pgcoord.task_locks ALTER expires_at TYPE timestamp`, "timestamptz"},
		{"missing table", "DROP TABLE pgcoord.task_locks CASCADE", "migrations.Up"},
		{"missing schema", "DROP SCHEMA pgcoord CASCADE", "migrations.Up"},
		{"read only", "", "read-only"},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			if fault.sql == "" {
				exec(t, pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`)
				pool.Reset()
			} else if _, err := pool.Exec(ctx, fault.sql); err != nil {
				for _, sql := range strings.Split(fault.sql, ";") {
					exec(t, pool, sql)
				}
			}
			c := newCoordinator(t, pool, uniquelock.Options{})
			if err := c.Verify(ctx); err == nil || !strings.Contains(err.Error(), fault.cure) {
				t.Errorf("verify: %v", err)
			}
			_, err := c.TryAcquire(ctx, "k")
			if err == nil || errors.Is(err, pgcoord.ErrHeld) || !strings.Contains(err.Error(), fault.cure) {
				t.Errorf("try: %v", err)
			}
			if _, err := c.Acquire(ctx, "k"); err == nil {
				t.Error("acquired")
			}
		})
	}
}

// A restore into a new cluster leaves a sequence and a timeline behind the tokens
// in the table.
func TestRepair(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	c := newCoordinator(t, pool, uniquelock.Options{})
	if err := c.Verify(ctx); err != nil {
		t.Fatalf("a new schema: %v", err)
	}
	const old = 7<<40 + 5000
	exec(t, pool, "INSERT INTO pgcoord.task_locks (task_name, token) VALUES ('restored', $1)", old)
	if err := c.Verify(ctx); err == nil || !strings.Contains(err.Error(), "Repair") {
		t.Fatalf("verify: %v", err)
	}
	if err := c.Repair(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(ctx); err != nil {
		t.Fatal(err)
	}
	if token := tryLock(t, c, "new", uniquelock.LockOptions{}).Token(); token <= old {
		t.Errorf("token %d after %d", token, old)
	}
}

// Close refuses new calls, answers who waits, lets guarded work finish, and frees
// the keys.
func TestClose(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	tryLock(t, a, "other", uniquelock.LockOptions{})
	waiter := async(ctx, a, "k")
	pgtest.Eventually(t, 5*time.Second, "a waiter", func() bool { return uniquelock.Waiting(a, "k") == 1 })
	end := openGuard(t, lease, "SELECT")

	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- a.Close(ctx) }()
	if r := <-waiter; !errors.Is(r.err, pgcoord.ErrClosed) {
		t.Errorf("waiter: %v", r.err)
	}
	if err := a.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second close while the first waits for a guard: %v", err)
	}
	select {
	case err := <-closed:
		t.Errorf("closed under an open guard: %v", err)
	default:
	}
	if err := end(); err != nil {
		t.Errorf("the guarded work: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := a.TryAcquire(ctx, "k"); !errors.Is(err, pgcoord.ErrClosed) {
		t.Errorf("try after close: %v", err)
	}
	for _, key := range []string{"k", "other"} {
		tryLock(t, b, key, uniquelock.LockOptions{})
	}
}
