package uniquelock_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// A process whose lease has run out is told, but nobody else has the key: its
// claim is still current, for guarded transactions and for completion.
func TestOverdueClaim(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	const ttl = 300 * time.Millisecond
	c := newCoordinator(t, pool, uniquelock.Options{TTL: ttl, IdleLimit: time.Minute})
	start := time.Now()
	lease := tryLock(t, c, "k", uniquelock.LockOptions{})
	uniquelock.StopRenewal(lease)
	select {
	case <-lease.Lost():
		if since := time.Since(start); since < ttl {
			t.Errorf("told after %v of %v", since, ttl)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the holder was not told that its lease has run out")
	}
	pgtest.Eventually(t, 5*time.Second, "the lease has ended in the database", func() bool { return remaining(t, pool, "k") < 0 })
	if err := lease.BeginFunc(ctx, nil); err != nil {
		t.Errorf("guarded transaction: %v", err)
	}
	if err := lease.Complete(ctx, func(pgx.Tx) error { return nil }); err != nil {
		t.Errorf("complete: %v", err)
	}
}

// What is left of a lease is counted from before the statement was sent: how long
// its reply took is not known to be before or after the database looked at its clock.
func TestLeaseCountsFromBeforeTheQuery(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, 1)
	const ttl, trip = time.Hour, 200 * time.Millisecond // each way
	f.proxy.Delay(trip)
	left := func(after string, lease *uniquelock.Lease) {
		t.Helper()
		if got := lease.Remaining(); got > ttl-2*trip {
			t.Errorf("after a %s of %v or more: %v left of %v", after, 2*trip, got, ttl)
		}
	}
	first := tryLock(t, f.c, "k", uniquelock.LockOptions{})
	left("grant", first)
	if err := first.Renew(f.ctx); err != nil {
		t.Fatal(err)
	}
	left("renewal", first)
	next := async(f.ctx, f.c, "k")
	pgtest.Eventually(t, 5*time.Second, "a waiter is in line", func() bool { return uniquelock.Waiting(f.c, "k") == 1 })
	if err := first.Release(f.ctx); err != nil {
		t.Fatal(err)
	}
	r := <-next
	if r.err != nil {
		t.Fatal(r.err)
	}
	left("hand-over", r.lease)
}
