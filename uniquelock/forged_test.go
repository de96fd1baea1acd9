package uniquelock_test

import (
	"testing"
	"time"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// A notification is a hint: one that is wrong neither grants nor breaks anything.
func TestForgedNotifications(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	waiter := async(ctx, b, "k")
	pgtest.Eventually(t, 5*time.Second, "B waits", func() bool { return waiting(t, pool, "k") == 1 })
	place := scan[string](t, pool, "SELECT slot_id FROM pgcoord.task_waiters")
	exec(t, pool, "SELECT pg_notify(channel, 'granted ' || slot_id) FROM pgcoord.task_waiters")
	exec(t, pool, "SELECT pg_notify(channel, 'broken ' || token || ' forged') FROM pgcoord.task_locks")
	pgtest.Eventually(t, 5*time.Second, "B has looked for the grant, and waits in a new place", func() bool {
		return len(waiter) == 1 || scan[int](t, pool, "SELECT count(*) FROM pgcoord.task_waiters WHERE slot_id <> $1", place) == 1
	})
	if err := lease.Renew(ctx); err != nil {
		t.Errorf("the claim of A: %v", err)
	}
	select {
	case <-lease.Lost():
		t.Error("A was told that its claim is lost")
	case r := <-waiter:
		t.Errorf("B was granted the claim of A: %+v", r)
	default:
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if r := <-waiter; r.err != nil || r.lease.Token() <= lease.Token() {
		t.Errorf("B, after the release: %+v", r)
	}
}
