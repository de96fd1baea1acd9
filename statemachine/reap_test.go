package statemachine_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/statemachine"
)

// Case M3: a worker that comes back after the reaper may finish while nobody has
// claimed the row, where the step allows it.
func TestAdoption(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 4)
	reaper := newCoordinator(t, pool, m)
	for i, finish := range []func(*statemachine.Attempt) error{
		func(a *statemachine.Attempt) error { return a.Complete(ctx, nil) },
		func(a *statemachine.Attempt) error { return a.Complete(ctx, func(pgx.Tx) error { return nil }) },
	} {
		for _, strict := range []bool{false, true} {
			key := string(rune('1' + 2*i))
			if strict {
				key = string(rune('2' + 2*i))
			}
			c := newCoordinator(t, pool, m, func(o *statemachine.Options) { o.Step.NoAdoption = strict })
			late := claim(t, c, key)
			expire(t, pool, late)
			if done, err := reaper.Reap(ctx); err != nil || len(done.Moved) != 1 || done.Moved[0].State != "PENDING" {
				t.Fatalf("reap: %+v, %v", done, err)
			}
			err := finish(late)
			if want := "PENDING"; strict && (!errors.Is(err, pgcoord.ErrLost) || state(t, pool, key) != want) {
				t.Errorf("no adoption: %v, row %s", err, state(t, pool, key))
			}
			if want := "DONE"; !strict && (err != nil || state(t, pool, key) != want) {
				t.Errorf("adoption: %v, row %s", err, state(t, pool, key))
			}
		}
	}
}

// Case M4: a lease renewed under a long job is never reaped.
func TestRenewalAgainstReaper(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 1)
	a := newCoordinator(t, pool, m, func(o *statemachine.Options) { o.Step.TTL = 1200 * time.Millisecond })
	reaper := newCoordinator(t, pool, m)
	job := claim(t, a, "1")
	start := time.Now()
	pgtest.Eventually(t, 20*time.Second, "three TTLs have passed", func() bool {
		if done, err := reaper.Reap(ctx); err != nil || len(done.Moved) > 0 {
			t.Fatalf("reap: %+v, %v", done, err)
		}
		return time.Since(start) > 3600*time.Millisecond
	})
	if err := job.Complete(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if got := outcomes(t, pool, "1"); got != "1 done" {
		t.Error(got)
	}
}

// Case M6: a row that cannot be moved is reported; the rest move, and nothing loops.
func TestReapWithStuckRow(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 5)
	a := newCoordinator(t, pool, m)
	dead := newCoordinator(t, pool, m)
	var attempts []*statemachine.Attempt
	for _, key := range []string{"1", "2", "3", "4", "5"} {
		attempts = append(attempts, claim(t, dead, key))
	}
	for _, attempt := range attempts {
		expire(t, pool, attempt)
	}
	exec(t, pool, "ALTER TABLE orders ADD kind text")
	exec(t, pool, "UPDATE orders SET kind = 'x' WHERE id = 3")
	exec(t, pool, "INSERT INTO orders (id, status, kind) VALUES (6, 'PENDING', 'x')")
	exec(t, pool, "CREATE UNIQUE INDEX one_pending ON orders (kind) WHERE status = 'PENDING'")
	done, err := a.Reap(ctx)
	if err != nil || len(done.Moved) != 4 || len(done.Stuck) != 1 || done.Stuck["3"] == nil {
		t.Fatalf("%+v, %v", done, err)
	}
	if s := state(t, pool, "3"); s != "PROCESSING" {
		t.Errorf("the stuck row is %s", s)
	}
	exec(t, pool, "DROP INDEX one_pending")
	if done, err := a.Reap(ctx); err != nil || len(done.Moved) != 1 {
		t.Errorf("after the cause is gone: %+v, %v", done, err)
	}
}

// Case M2: workers that complete while reapers run on leases that are over: a row
// that was completed stays Done, and none is lost.
func TestReaperAgainstCompletion(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	const rows = 60
	insertOrders(t, pool, 1, rows)
	worker, reaper := newCoordinator(t, pool, m), newCoordinator(t, pool, m)
	attempts, err := worker.ClaimBatch(ctx, rows)
	if err != nil || len(attempts) != rows {
		t.Fatal(len(attempts), err)
	}
	for _, a := range attempts {
		expire(t, pool, a)
	}
	var group sync.WaitGroup
	group.Add(2)
	go func() {
		defer group.Done()
		for range 20 {
			if _, err := reaper.Reap(ctx); err != nil {
				t.Error(err)
			}
		}
	}()
	go func() {
		defer group.Done()
		for _, a := range attempts { // adopted where the reaper was first
			if err := a.Complete(ctx, nil); err != nil {
				t.Error(err)
			}
		}
	}()
	group.Wait()
	if n := scan[int](t, pool, "SELECT count(*) FROM orders WHERE status = 'DONE'"); n != rows {
		t.Errorf("%d of %d rows are done", n, rows)
	}
	if n := scan[int](t, pool, "SELECT count(*) FROM pgcoord.attempts WHERE outcome = 'done'"); n != rows {
		t.Errorf("%d of %d attempts are done", n, rows)
	}
}

// Case M8: two machines on one database do not touch each other's rows.
func TestTwoMachines(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	first := newOrders(t, pool)
	insertOrders(t, pool, 1, 2)
	d := orders()
	d.Name = "another service"
	second := define(t, d)
	a, b := newCoordinator(t, pool, first), newCoordinator(t, pool, second)
	x := claim(t, a, "1")
	expire(t, pool, x)
	if done, err := b.Reap(ctx); err != nil || len(done.Moved) != 0 {
		t.Fatalf("the other machine's reaper: %+v, %v", done, err)
	}
	if s := state(t, pool, "1"); s != "PROCESSING" {
		t.Errorf("row %s", s)
	}
}

// A machine without a way back: a dead worker's row fails, and Release is refused.
func TestNoWayBack(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	newOrders(t, pool)
	insertOrders(t, pool, 1, 2)
	d := orders()
	d.Transitions = d.Transitions[:3]
	c := newCoordinator(t, pool, define(t, d))
	x, y := claim(t, c, "1"), claim(t, c, "2")
	if err := x.Release(ctx); !errors.Is(err, pgcoord.ErrConflict) {
		t.Errorf("release: %v", err)
	}
	if err := x.Fail(ctx, errors.New("no"), statemachine.FailOptions{}); err != nil || state(t, pool, "1") != "FAILED" {
		t.Errorf("fail: %v, row %s", err, state(t, pool, "1"))
	}
	expire(t, pool, y)
	if done, err := c.Reap(ctx); err != nil || len(done.Moved) != 1 || done.Moved[0].State != "FAILED" {
		t.Errorf("reap: %+v, %v", done, err)
	}
	if err := y.Complete(ctx, nil); !errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("a late completion: %v", err)
	}
}

// Attempts whose row went on without them are closed by the reaper, and Prune
// deletes what is old, but for the last attempt of a row that goes on.
func TestSupersededAndPrune(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 4)
	c := newCoordinator(t, pool, m)
	moved, deleted, failed, done := claim(t, c, "1"), claim(t, c, "2"), claim(t, c, "3"), claim(t, c, "4")
	if err := failed.Fail(ctx, nil, statemachine.FailOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := done.Complete(pgcoord.WithOperation(ctx, "op"), nil); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "UPDATE orders SET status = 'PENDING' WHERE id = 1")
	exec(t, pool, "DELETE FROM orders WHERE id = 2")
	expire(t, pool, moved)
	expire(t, pool, deleted)
	if reaped, err := c.Reap(ctx); err != nil || len(reaped.Moved) != 0 {
		t.Fatalf("reap: %+v, %v", reaped, err)
	}
	for key, want := range map[string]string{"1": "1 superseded", "2": "1 superseded", "3": "1 retry", "4": "1 done"} {
		if got := outcomes(t, pool, key); got != want {
			t.Errorf("row %s: %s, want %s", key, got, want)
		}
	}
	if p, err := c.Prune(ctx, statemachine.PruneOptions{Attempts: time.Minute}); err != nil || p.Attempts != 0 {
		t.Errorf("young: %+v, %v", p, err)
	}
	exec(t, pool, "UPDATE pgcoord.attempts SET ended_at = ended_at - interval '1 hour'")
	exec(t, pool, "UPDATE pgcoord.operations SET decided_at = decided_at - interval '1 hour'")
	p, err := c.Prune(ctx, statemachine.PruneOptions{Attempts: time.Minute, Operations: time.Minute, Transitions: time.Minute})
	if err != nil || p.Attempts != 2 || p.Operations != 1 { // 1 and 3 go on, 2 and 4 do not
		t.Errorf("old: %+v, %v", p, err)
	}
	if n := claim(t, c, "3").Number(); n != 2 {
		t.Errorf("attempt %d after the prune", n)
	}
	if _, err := c.Prune(ctx, statemachine.PruneOptions{Attempts: time.Second}); err == nil {
		t.Error("an age below any statement's life")
	}
}

// Renewals are heap-only updates of pgcoord.attempts, and touch no row of the
// application.
func TestRenewalsAreHeapOnly(t *testing.T) {
	t.Parallel()
	ctx := within(t, 5*time.Minute)
	// A server of its own: an old transaction of any database delays the pruning.
	server := pgtest.Dedicated(t, localpg.Options{Settings: map[string]string{"fsync": "off"}})
	pool := pgtest.Pool(t, pgtest.DSNOn(t, server))
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 1)
	a := claim(t, newCoordinator(t, pool, m), "1")
	version := scan[string](t, pool, "SELECT xmin::text FROM orders")
	const renewals = 1500
	for range renewals {
		if err := a.Renew(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if now := scan[string](t, pool, "SELECT xmin::text FROM orders"); now != version {
		t.Error("a renewal changed the application's row")
	}
	var hot, updates int64
	pgtest.Eventually(t, 20*time.Second, "the statistics are in", func() bool {
		row := pool.QueryRow(ctx, "SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'attempts'")
		if err := row.Scan(&hot, &updates); err != nil {
			t.Fatal(err)
		}
		return updates >= renewals
	})
	t.Logf("%d of %d updates heap-only", hot, updates)
	if hot*100 < updates*99 {
		t.Errorf("%d of %d updates were heap-only", hot, updates)
	}
}
