package statemachine_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/statemachine"
)

// Case M7: a batch takes exactly what was asked for, under plans that would run the
// choice again for each row.
func TestBatchSize(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	pool := newPool(t, func(c *pgxpool.Config) {
		for _, method := range []string{"hashjoin", "mergejoin", "hashagg", "sort", "material"} {
			c.ConnConfig.RuntimeParams["enable_"+method] = "off"
		}
		c.ConnConfig.RuntimeParams["jit"] = "off" // it would compile such plans for seconds
	})
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 50)
	c := newCoordinator(t, pool, m)
	batch, err := c.ClaimBatch(ctx, 3, statemachine.Order{Column: "id", Descending: true})
	if err != nil || len(batch) != 3 || batch[0].Key() != "50" || batch[2].Key() != "48" {
		t.Fatalf("%v, %v", batch, err)
	}
	if n := scan[int](t, pool, "SELECT count(*) FROM orders WHERE status = 'PROCESSING'"); n != 3 {
		t.Errorf("%d rows are claimed", n)
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	var group sync.WaitGroup
	for range 6 {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				batch, err := c.ClaimBatch(ctx, 4)
				if err != nil {
					t.Error(err)
				}
				if len(batch) == 0 {
					return
				}
				for _, a := range batch {
					mu.Lock()
					if seen[a.Key()] {
						t.Errorf("row %s was claimed twice", a.Key())
					}
					seen[a.Key()] = true
					mu.Unlock()
					if err := a.Complete(ctx, nil); err != nil {
						t.Error(err)
					}
				}
			}
		}()
	}
	group.Wait()
	if len(seen) != 47 {
		t.Errorf("%d rows", len(seen))
	}
	for _, n := range []int{0, -1, 1001} {
		if _, err := c.ClaimBatch(ctx, n); err == nil {
			t.Errorf("a batch of %d", n)
		}
	}
	if _, err := c.ClaimBatch(ctx, 1, statemachine.Order{Column: `id"; DROP TABLE orders; --`}); err == nil {
		t.Error("a hostile order")
	}
}

// Next is woken by a row that comes back.
func TestNext(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 1)
	a, b := newCoordinator(t, pool, m), newCoordinator(t, pool, m)
	x, err := a.Next(ctx)
	if err != nil || x.Key() != "1" {
		t.Fatal(x, err)
	}
	got := make(chan *statemachine.Attempt, 1)
	go func() {
		y, err := b.Next(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- y
	}()
	pgtest.Eventually(t, 10*time.Second, "B waits for work", func() bool {
		return scan[int](t, pool, "SELECT count(*) FROM pgcoord.machine_waiters WHERE key = ''") > 0
	})
	if err := x.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if y := <-got; y == nil || y.Number() != 2 {
		t.Fatalf("%+v", y)
	}
}
