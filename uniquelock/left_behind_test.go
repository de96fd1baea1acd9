package uniquelock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/faultproxy"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

var errMine = errors.New("mine")

// Nobody but the call knows of the lease that a contended DoTx has waited for: a
// panic in its function must not leave it renewed for ever.
func TestPanicInContendedOneTransaction(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"panic", "goexit"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 30*time.Second)
			pool := newPool(t)
			const ttl = 400 * time.Millisecond
			a, b := newCoordinator(t, pool, uniquelock.Options{TTL: ttl}), newCoordinator(t, pool, uniquelock.Options{})
			held := tryLock(t, b, "k", uniquelock.LockOptions{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }()
				_ = a.DoTx(ctx, "k", func(pgx.Tx) error {
					if how == "panic" {
						panic("boom")
					}
					runtime.Goexit()
					return nil
				})
			}()
			pgtest.Eventually(t, 5*time.Second, "it waits", func() bool { return waiting(t, pool, "k") == 1 })
			if err := held.Release(ctx); err != nil {
				t.Fatal(err)
			}
			<-ended
			ctx2, cancel := context.WithTimeout(ctx, 5*ttl)
			defer cancel()
			if _, err := b.Lock(ctx2, "k", uniquelock.LockOptions{}); err != nil {
				t.Errorf("%v after the panic the key is still taken: %v", 5*ttl, err)
			}
		})
	}
}

// Where a release got no reply, nobody of the process trusts that lease to tell of
// its end: the key may be free.
func TestUnknownReleaseHoldsUpNobody(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	dsn := pgtest.DSN(t)
	beside := pgtest.Pool(t, dsn)
	proxy := pgtest.Proxy(t, dsn)
	pool := pgtest.Pool(t, proxy.DSN(dsn))
	c := newCoordinator(t, pool, uniquelock.Options{TTL: 20 * time.Second})
	lease := tryLock(t, c, "k", uniquelock.LockOptions{})
	// nobody waits: the release is sent, its reply never comes
	proxy.AtNext(func(m faultproxy.Message) bool {
		return m.Executes() && strings.Contains(m.SQL, "SET held = false, ended_at")
	}, faultproxy.ForwardThenFreeze)
	rctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	rel := make(chan error, 1)
	go func() { rel <- lease.Release(rctx) }()
	err := <-rel
	t.Log("release:", err)
	defer proxy.Thaw()
	pgtest.Eventually(t, 5*time.Second, "free in the database", func() bool {
		return !scan[bool](t, beside, "SELECT held FROM pgcoord.task_locks")
	})
	start := time.Now()
	lctx, cancel2 := context.WithTimeout(ctx, 30*time.Second)
	defer cancel2()
	if _, err := c.Lock(lctx, "k", uniquelock.LockOptions{}); err != nil {
		t.Errorf("lock: %v", err)
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("a waiter of the process waited %v for a key that is free", d)
	}
}

// A waiter that was handed the key by a statement without a reply finds it.
func TestHandOverWithoutReply(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	dsn := pgtest.DSN(t)
	proxy := pgtest.Proxy(t, dsn)
	pool := pgtest.Pool(t, proxy.DSN(dsn))
	c := newCoordinator(t, pool, uniquelock.Options{TTL: 15 * time.Second})
	lease := tryLock(t, c, "k", uniquelock.LockOptions{})
	got := async(ctx, c, "k")
	pgtest.Eventually(t, 5*time.Second, "it waits", func() bool { return uniquelock.Waiting(c, "k") == 1 })
	proxy.AtNext(func(m faultproxy.Message) bool {
		return m.Executes() && strings.Contains(m.SQL, "RETURNING t.token, t.waiters")
	}, faultproxy.ForwardThenFreeze)
	rctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	t.Log("release:", lease.Release(rctx))
	defer proxy.Thaw()
	r := <-got
	if r.err != nil {
		t.Errorf("lock: %v", r.err)
	}
	if d := time.Since(start); d > 4*time.Second {
		t.Errorf("the waiter that was handed the key waited %v for it", d)
	}
}

// A repetition under a grant id finds its claim, whoever waits in the process.
func TestGrantIDPassesTheLine(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	first, err := b.Lock(pgcoord.WithGrantID(ctx, "x"), "k", uniquelock.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wctx, stop := context.WithCancel(ctx)
	other := async(wctx, a, "k")
	pgtest.Eventually(t, 5*time.Second, "it waits", func() bool { return uniquelock.Waiting(a, "k") == 1 })
	ctx2, cancel := context.WithTimeout(pgcoord.WithGrantID(ctx, "x"), 2*time.Second)
	defer cancel()
	again, err := a.Lock(ctx2, "k", uniquelock.LockOptions{})
	if err != nil {
		t.Errorf("the repetition under the same grant id: %v", err)
	} else if again.Token() != first.Token() {
		t.Errorf("token %d, want %d", again.Token(), first.Token())
	}
	stop()
	<-other
}

// A place whose statement was not answered is given up with its call, and is not
// granted the key.
func TestUnansweredPlaceIsGivenUp(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	dsn := pgtest.DSN(t)
	beside := pgtest.Pool(t, dsn)
	proxy := pgtest.Proxy(t, dsn)
	pool := pgtest.Pool(t, proxy.DSN(dsn))
	c, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, beside, uniquelock.Options{})
	tryLock(t, c, "warm", uniquelock.LockOptions{})
	pgtest.Eventually(t, 5*time.Second, "the listener works", func() bool {
		return scan[int](t, beside, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'") > 0
	})
	held := tryLock(t, b, "k", uniquelock.LockOptions{})
	met := proxy.AtNext(func(m faultproxy.Message) bool {
		return m.Executes() && strings.Contains(m.SQL, "INSERT INTO pgcoord.task_waiters")
	}, faultproxy.ForwardThenFreeze)
	wctx, stop := context.WithCancel(ctx)
	got := async(wctx, c, "k")
	<-met
	pgtest.Eventually(t, 5*time.Second, "it has its place", func() bool { return waiting(t, beside, "k") == 1 })
	stop()
	t.Log("lock:", (<-got).err)
	defer proxy.Thaw()
	pgtest.Eventually(t, 5*time.Second, "the cancelled call's place is given up", func() bool { return waiting(t, beside, "k") == 0 })
	start := time.Now()
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Lock(ctx, "k", uniquelock.LockOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("the key was taken by a caller that had gone for %v", d)
	}
}

// An outage is waited out, also by who has waited behind a lease of its process.
func TestOutageBehindOwnLease(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	dsn := pgtest.DSN(t)
	proxy := pgtest.Proxy(t, dsn)
	pool := pgtest.Pool(t, proxy.DSN(dsn))
	c := newCoordinator(t, pool, uniquelock.Options{TTL: time.Second})
	lease := tryLock(t, c, "k", uniquelock.LockOptions{})
	var all []<-chan result
	for range 3 {
		all = append(all, async(ctx, c, "k"))
	}
	pgtest.Eventually(t, 5*time.Second, "they wait", func() bool { return uniquelock.Waiting(c, "k") == 3 })
	proxy.Refuse(true)
	proxy.Reset()
	<-lease.Lost()
	<-time.After(3 * time.Second) // how long the outage lasts
	proxy.Refuse(false)
	var wg sync.WaitGroup
	for _, got := range all {
		wg.Go(func() {
			r := <-got
			if r.err != nil {
				t.Errorf("an outage was not waited out: %v", r.err)
				return
			}
			_ = r.lease.Release(ctx)
		})
	}
	wg.Wait()
}

// What the function returns is no answer about the call: neither that the key is
// held, nor that the outcome is unknown, nor that the claim is lost.
func TestErrorsOfTheFunctionAreItsOwn(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	tryLock(t, b, "other", uniquelock.LockOptions{})
	var runs atomic.Int32
	err := a.DoTx(ctx, "k", func(pgx.Tx) error {
		runs.Add(1)
		return errors.Join(errMine, a.TryDoTx(ctx, "other", nil))
	})
	if runs.Load() != 1 || !errors.Is(err, errMine) {
		t.Errorf("DoTx ran its function %d times because that returned ErrHeld of another key: %v", runs.Load(), err)
	}
	lease := tryLock(t, a, "k2", uniquelock.LockOptions{})
	mine := fmt.Errorf("%w: %w", errMine, pgcoord.ErrOutcomeUnknown)
	err = lease.Complete(ctx, func(pgx.Tx) error { return mine })
	if !errors.Is(err, errMine) {
		t.Errorf("Complete hid the error of its function: %v", err)
	}
	// the function's own PGC01 (of another claim)
	lease = tryLock(t, a, "k3", uniquelock.LockOptions{})
	err = lease.BeginFunc(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT pgcoord.complete_task('nobody', 1, 'x', false)")
		return err
	})
	t.Log(err)
	if err := lease.BeginFunc(ctx, nil); err != nil {
		t.Errorf("the claim is said to be lost because of another one: %v", err)
	}
}

// A lease whose Release failed ends with its TTL, wherever it failed.
func TestFailedReleaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	const ttl = 500 * time.Millisecond
	c := newCoordinator(t, pool, uniquelock.Options{TTL: ttl})
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for i := range 40 {
		if err := tryLock(t, c, fmt.Sprint("k", i), uniquelock.LockOptions{}).Release(over); err == nil {
			t.Log("released")
		}
	}
	pgtest.Eventually(t, 20*ttl, "the leases whose Release failed end", func() bool {
		return scan[int](t, pool, "SELECT count(*) FROM pgcoord.task_locks WHERE expires_at > clock_timestamp()") == 0
	})
	// the same while a guarded transaction is open
	l := tryLock(t, c, "guarded", uniquelock.LockOptions{})
	end := openGuard(t, l, "SELECT 1")
	short, cancel2 := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel2()
	if err := l.Release(short); err == nil {
		t.Fatal("released under an open guard")
	}
	if err := end(); err != nil {
		t.Log(err)
	}
	pgtest.Eventually(t, 20*ttl, "a lease whose Release failed under an open guard ends", func() bool {
		return scan[int](t, pool, "SELECT count(*) FROM pgcoord.task_locks WHERE task_name = 'guarded' AND expires_at > clock_timestamp()") == 0
	})
}
