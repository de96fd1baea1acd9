package uniquelock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// waiting reports how many places of processes the table has for key.
func waiting(t testing.TB, pool *pgxpool.Pool, key string) int {
	t.Helper()
	return scan[int](t, pool, "SELECT count(*) FROM pgcoord.task_waiters WHERE task_name = $1", key)
}

// async acquires key in the background.
func async(ctx context.Context, c *uniquelock.Coordinator, key string) <-chan result {
	ch := make(chan result, 1)
	go func() {
		lease, err := c.Lock(ctx, key, uniquelock.LockOptions{})
		ch <- result{lease, err}
	}()
	return ch
}

type result struct {
	lease *uniquelock.Lease
	err   error
}

// TestHandOverBetweenProcesses: the release grants to a waiting process and
// notifies it; it does not wait for its fallback look.
func TestHandOverBetweenProcesses(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a := newCoordinator(t, pool, uniquelock.Options{Holder: "A"})
	b := newCoordinator(t, pool, uniquelock.Options{Holder: "B"})
	lease, err := a.TryLock(ctx, "k", uniquelock.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := async(ctx, b, "k")
	pgtest.Eventually(t, 5*time.Second, "B stands in the table of waiters", func() bool { return waiting(t, pool, "k") == 1 })
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	// By the time Release returned, the key was B's.
	if holder := scan[string](t, pool, "SELECT holder FROM pgcoord.held WHERE key = 'k'"); holder != "B" {
		t.Fatalf("held by %q after the release", holder)
	}
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	if r.lease.Token() <= lease.Token() {
		t.Fatalf("token %d after %d", r.lease.Token(), lease.Token())
	}
	if err := r.lease.Complete(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if n := waiting(t, pool, "k"); n != 0 {
		t.Fatalf("%d places left", n)
	}
}

// TestHotKey: several processes of several goroutines each; nobody is left out,
// the tokens are all different, and the places are cleared.
func TestHotKey(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	dsn := pgtest.DSN(t)
	const processes, goroutines, rounds = 3, 5, 8
	var mu sync.Mutex
	tokens := map[int64]string{}
	inside := 0
	var group sync.WaitGroup
	for p := range processes {
		pool := pgtest.Pool(t, dsn)
		c := newCoordinator(t, pool, uniquelock.Options{Holder: fmt.Sprint("process ", p)})
		for g := range goroutines {
			group.Add(1)
			go func() {
				defer group.Done()
				for range rounds {
					lease, err := c.Lock(ctx, "hot", uniquelock.LockOptions{})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					inside++
					if inside != 1 || tokens[lease.Token()] != "" {
						t.Errorf("%d inside, token %d was of %q before", inside, lease.Token(), tokens[lease.Token()])
					}
					tokens[lease.Token()] = fmt.Sprint(p, " ", g)
					inside--
					mu.Unlock()
					if err := lease.Release(ctx); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
	}
	group.Wait()
	if len(tokens) != processes*goroutines*rounds {
		t.Errorf("%d grants, want %d", len(tokens), processes*goroutines*rounds)
	}
	pool := pgtest.Pool(t, dsn)
	pgtest.Eventually(t, 10*time.Second, "no place is left", func() bool { return waiting(t, pool, "hot") == 0 })
}

// TestThousandWaiters: they cost two connections, are served in their order, and
// a release reaches the next in about a round trip.
func TestThousandWaiters(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	pool := newPool(t, func(c *pgxpool.Config) { c.MaxConns = 4 })
	c := newCoordinator(t, pool, uniquelock.Options{})
	lease, err := c.Lock(ctx, "k", uniquelock.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const waiters = 1000
	order := make(chan int, waiters)
	var group sync.WaitGroup
	for i := range waiters {
		group.Add(1)
		joined := uniquelock.Waiting(c, "k")
		go func() {
			defer group.Done()
			l, err := c.Lock(ctx, "k", uniquelock.LockOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			order <- i
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
		}()
		pgtest.Eventually(t, 5*time.Second, "the waiter is in line", func() bool { return uniquelock.Waiting(c, "k") > joined })
	}
	db := scan[string](t, pool, "SELECT current_database()")
	connections := scan[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'", db)
	if limit := int(pool.Stat().TotalConns()) + 2; connections > limit {
		t.Errorf("%d connections with %d waiters, at most %d are allowed", connections, waiters, limit)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	close(order)
	want := 0
	for i := range order {
		if i != want {
			t.Fatalf("waiter %d was served when it was the turn of %d", i, want)
		}
		want++
	}
}

// TestWaiterLeaves: a waiter whose context ends gives its place up, in the process
// and among others, and the key goes to the next.
func TestWaiterLeaves(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a := newCoordinator(t, pool, uniquelock.Options{})
	b := newCoordinator(t, pool, uniquelock.Options{})
	lease, err := a.TryLock(ctx, "k", uniquelock.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	gone := async(short, b, "k")
	pgtest.Eventually(t, 5*time.Second, "B is waiting", func() bool { return waiting(t, pool, "k") == 1 })
	cancel()
	if r := <-gone; !errors.Is(r.err, context.Canceled) {
		t.Fatalf("cancelled wait: %v", r.err)
	}
	pgtest.Eventually(t, 5*time.Second, "the place is gone", func() bool { return waiting(t, pool, "k") == 0 })
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryLock(ctx, "k", uniquelock.LockOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestDeadWaiter: a place whose process has died gets the grant, and the others go
// on after its first lease.
func TestDeadWaiter(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a := newCoordinator(t, pool, uniquelock.Options{})
	lease, err := a.TryLock(ctx, "k", uniquelock.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `INSERT INTO pgcoord.task_waiters (task_name, slot_id, channel, holder, deadline)
		VALUES ('k', 'slot:dead', 'nobody_listens', 'dead', clock_timestamp() + interval '1 minute')`)
	exec(t, pool, "UPDATE pgcoord.task_locks SET waiters = true WHERE task_name = 'k'")
	b := newCoordinator(t, pool, uniquelock.Options{Holder: "B"})
	got := async(ctx, b, "k")
	pgtest.Eventually(t, 5*time.Second, "B stands behind the dead one", func() bool { return waiting(t, pool, "k") == 2 })
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r.err != nil {
		t.Fatal(r.err)
	}
}

// TestWakeWithoutListener: the backend that listens is killed (case 46); a release
// during the outage reaches the waiter within the fallback look.
func TestWakeWithoutListener(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a := newCoordinator(t, pool, uniquelock.Options{})
	b := newCoordinator(t, pool, uniquelock.Options{})
	lease, err := a.TryLock(ctx, "k", uniquelock.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := async(ctx, b, "k")
	pgtest.Eventually(t, 5*time.Second, "B is waiting", func() bool { return waiting(t, pool, "k") == 1 })
	exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if r := <-got; r.err != nil {
		t.Fatal(r.err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("the waiter took %v", took)
	}
}

// TestDoneReachesAllWaiters: with Once, a completion answers everybody.
func TestDoneReachesAllWaiters(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	a := newCoordinator(t, pool, uniquelock.Options{Once: true})
	b := newCoordinator(t, pool, uniquelock.Options{Once: true})
	lease, err := a.TryLock(ctx, "k", uniquelock.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []<-chan result
	for range 5 {
		all = append(all, async(ctx, a, "k"), async(ctx, b, "k"))
	}
	pgtest.Eventually(t, 5*time.Second, "all are in line", func() bool {
		return uniquelock.Waiting(a, "k") == 5 && uniquelock.Waiting(b, "k") == 5
	})
	if err := lease.Complete(ctx, nil); err != nil {
		t.Fatal(err)
	}
	for _, got := range all {
		if r := <-got; !errors.Is(r.err, pgcoord.ErrDone) {
			t.Errorf("waiter: %v", r.err)
		}
	}
	if _, err := b.TryAcquire(ctx, "k"); !errors.Is(err, pgcoord.ErrDone) {
		t.Errorf("try: %v", err)
	}
}

// TestOthersGetTheirTurn: a process whose own line never empties hands the key to
// another one after 16 hand-overs.
func TestOthersGetTheirTurn(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	pool := newPool(t)
	busy, other := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	var grants atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				l, err := busy.Lock(ctx, "k", uniquelock.LockOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				grants.Add(1)
				if err := l.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for range 5 {
		got := async(ctx, other, "k")
		pgtest.Eventually(t, 20*time.Second, "the other process stands in the table or has the key", func() bool {
			return len(got) == 1 || waiting(t, pool, "k") > 0
		})
		before := grants.Load()
		r := <-got
		if r.err != nil {
			t.Fatal(r.err)
		}
		// 16 of a streak, those of one that had begun, and what the test was slow to see.
		if n := grants.Load() - before; n > 3*16 {
			t.Errorf("%d grants passed the other process by", n)
		}
		if err := r.lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	group.Wait()
}
