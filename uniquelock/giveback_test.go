package uniquelock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/faultproxy"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// freeSoon waits until another process gets key, long before any TTL has passed.
func freeSoon(t *testing.T, pool *pgxpool.Pool, key string) {
	t.Helper()
	other := newCoordinator(t, pool, uniquelock.Options{})
	pgtest.Eventually(t, 5*time.Second, "the key is free", func() bool {
		lease, err := other.TryLock(t.Context(), key, uniquelock.LockOptions{})
		return err == nil && lease.Release(t.Context()) == nil
	})
}

// A grant whose caller has gone is given back: where its reply never comes, and
// where it comes just after the caller's context has ended.
func TestHalfWonIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		action faultproxy.Action
		delay  time.Duration
	}{
		"no reply":   {faultproxy.ForwardThenFreeze, 0},
		"late reply": {faultproxy.Forward, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, 2)
			ctx, cancel := context.WithCancel(f.ctx)
			defer cancel()
			f.proxy.Delay(tt.delay)
			sent := f.atNext("WITH", tt.action)
			done := make(chan error, 1)
			go func() { done <- second(f.c.TryLock(ctx, "k", uniquelock.LockOptions{})) }()
			<-sent
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("a try that was cancelled: %v", err)
			}
			freeSoon(t, f.pool, "k")
		})
	}
}

// What is given back is the call's own grant: where it got none, the key stays
// with its holder.
func TestGiveBackIsOfTheClaim(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, 2)
	lease := tryLock(t, newCoordinator(t, f.pool, uniquelock.Options{TTL: time.Hour}), "k", uniquelock.LockOptions{})
	before := claimIn(t, f.pool, "k")
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	sent := f.atNext("WITH", faultproxy.ForwardThenFreeze)
	done := make(chan error, 1)
	go func() { done <- second(f.c.TryLock(ctx, "k", uniquelock.LockOptions{})) }()
	<-sent
	cancel()
	if err := <-done; !errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("a try without a reply: %v", err)
	}
	if err := f.c.Close(f.ctx); err != nil { // waits until it has been given back
		t.Fatal(err)
	}
	if after := claimIn(t, f.pool, "k"); after != before {
		t.Errorf("the claim of another was given back\nfrom %s\nto   %s", before, after)
	}
	if err := lease.BeginFunc(f.ctx, nil); err != nil {
		t.Error(err)
	}
}

// The waiter to whom a release has just handed the key has gone meanwhile: the key
// is freed again.
func TestHandOverToOneWhoLeft(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, 2)
	lease := tryLock(t, f.c, "k", uniquelock.LockOptions{})
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	leaves := async(ctx, f.c, "k")
	pgtest.Eventually(t, 5*time.Second, "a waiter is in line", func() bool { return uniquelock.Waiting(f.c, "k") == 1 })
	sent := f.atNext("WITH", faultproxy.ForwardThenFreeze)
	released := make(chan error, 1)
	go func() { released <- lease.Release(f.ctx) }()
	<-sent
	cancel()
	if r := <-leaves; !errors.Is(r.err, context.Canceled) {
		t.Fatalf("the waiter that was cancelled: %+v", r)
	}
	f.proxy.Thaw()
	if err := <-released; err != nil {
		t.Errorf("the release: %v", err)
	}
	freeSoon(t, f.pool, "k")
}

// bell is a context that ends when it is first waited for by somebody in line, and
// rings just before.
type bell struct {
	context.Context
	inLine func() bool
	ring   func()
	once   sync.Once
	over   chan struct{}
}

func (b *bell) Done() <-chan struct{} {
	if b.inLine() {
		b.once.Do(func() {
			b.ring()
			close(b.over)
		})
	}
	return b.over
}

func (b *bell) Err() error {
	select {
	case <-b.over:
		return context.Canceled
	default:
		return nil
	}
}

// A waiter whose context ends in the moment in which it is handed the key has it,
// or frees it.
func TestLateDelivery(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	c := newCoordinator(t, pool, uniquelock.Options{TTL: time.Hour})
	left := 0
	for range 20 { // which of the two it sees first is left to chance
		lease := tryLock(t, c, "k", uniquelock.LockOptions{})
		b := &bell{Context: ctx, over: make(chan struct{}), inLine: func() bool { return uniquelock.Waiting(c, "k") == 1 }}
		b.ring = func() {
			if err := lease.Release(ctx); err != nil {
				t.Error(err)
			}
		}
		next, err := c.Lock(b, "k", uniquelock.LockOptions{})
		switch {
		case err == nil:
			if err := next.Release(ctx); err != nil {
				t.Fatal(err)
			}
		case errors.Is(err, context.Canceled):
			left++
			freeSoon(t, pool, "k")
		default:
			t.Fatal(err)
		}
	}
	if left == 0 {
		t.Error("the waiter never saw the end of its context first")
	}
}

// Close ends the connections that are the coordinator's own.
func TestCloseEndsItsConnections(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	dsn := pgtest.DSN(t)
	beside := pgtest.Pool(t, dsn)
	pool := pgtest.Pool(t, dsn, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "closing" })
	connections := func() int {
		return scan[int](t, beside, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'closing'")
	}
	c := newCoordinator(t, pool, uniquelock.Options{TTL: 3 * time.Second})
	lease := tryLock(t, c, "k", uniquelock.LockOptions{})
	pgtest.Eventually(t, 5*time.Second, "it listens and renews on connections of its own", func() bool {
		return connections() >= int(pool.Stat().TotalConns())+2
	})
	if err := lease.Release(ctx); err != nil && !errors.Is(err, pgcoord.ErrLost) {
		t.Fatal(err)
	}
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	pool.Close()
	pgtest.Eventually(t, 5*time.Second, "no connection is left", func() bool { return connections() == 0 })
}
