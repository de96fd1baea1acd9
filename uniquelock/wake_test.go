package uniquelock_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// A completion with work wakes a waiter in another process: nobody sleeps until
// its next look, which is a second away.
func TestCompletionWakes(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	const rounds = 6
	var took time.Duration
	for range rounds {
		lease := tryLock(t, a, "k", uniquelock.LockOptions{})
		next := async(ctx, b, "k")
		pgtest.Eventually(t, 5*time.Second, "B waits", func() bool { return waiting(t, pool, "k") == 1 })
		start := time.Now()
		if err := lease.Complete(ctx, func(pgx.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		r := <-next
		took += time.Since(start)
		if r.err != nil {
			t.Fatal(r.err)
		}
		if err := r.lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if took > rounds*time.Second/2 {
		t.Errorf("%d completions reached the waiter in %v", rounds, took)
	}
}

// A release hands the key to the next waiter of the process without freeing it.
func TestHandOverInTheProcess(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	exec(t, pool, "CREATE TABLE freed (token bigint)")
	exec(t, pool, `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO freed VALUES (old.token); RETURN NULL; END $$`)
	exec(t, pool, `CREATE TRIGGER note AFTER UPDATE ON pgcoord.task_locks FOR EACH ROW WHEN (old.held AND NOT new.held) EXECUTE FUNCTION note()`)
	c := newCoordinator(t, pool, uniquelock.Options{})
	lease := tryLock(t, c, "k", uniquelock.LockOptions{})
	next := async(ctx, c, "k")
	pgtest.Eventually(t, 5*time.Second, "a waiter is in line", func() bool { return uniquelock.Waiting(c, "k") == 1 })
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if r := <-next; r.err != nil || r.lease.Token() <= lease.Token() {
		t.Fatalf("the next: %+v", r)
	}
	if n := scan[int](t, pool, "SELECT count(*) FROM freed"); n != 0 {
		t.Error("the key was free in between")
	}
}

// A place whose deadline has passed is not granted to.
func TestExpiredPlaceIsPassedOver(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{Holder: "A"}), newCoordinator(t, pool, uniquelock.Options{Holder: "B"})
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	exec(t, pool, `INSERT INTO pgcoord.task_waiters (task_name, slot_id, channel, holder, deadline)
		VALUES ('k', 'slot:dead', 'nobody_listens', 'dead', clock_timestamp() - interval '1 second')`)
	next := async(ctx, b, "k")
	pgtest.Eventually(t, 5*time.Second, "B stands behind the dead one", func() bool { return waiting(t, pool, "k") == 2 })
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if holder := scan[string](t, pool, "SELECT holder FROM pgcoord.task_locks"); holder != "B" {
		t.Errorf("granted to %q", holder)
	}
	if r := <-next; r.err != nil {
		t.Fatal(r.err)
	}
}

// Who wins the key by looking has given its place up when it has the key: its own
// release would pass the key to the place.
func TestPlaceIsGivenUp(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	exec(t, pool, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN old; END $$")
	exec(t, pool, "CREATE TRIGGER slow BEFORE DELETE ON pgcoord.task_waiters FOR EACH ROW EXECUTE FUNCTION slow()")
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	next := async(ctx, b, "k")
	pgtest.Eventually(t, 5*time.Second, "B waits", func() bool { return waiting(t, pool, "k") == 1 })
	expire(t, pool, lease)
	r := <-next
	if r.err != nil {
		t.Fatal(r.err)
	}
	if n := waiting(t, pool, "k"); n != 0 {
		t.Errorf("%d places of a process that does not wait", n)
	}
}
