package bench

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/uniquelock"
)

// BenchmarkHandOver measures the time from the call of Release to the start of the
// next holder, with 16 waiters, against one durable update of a single row in the
// same run.
func BenchmarkHandOver(b *testing.B) {
	const waiters = 16
	b.Run("one-process/waiters=16", func(b *testing.B) {
		pool := newPool(b, 8)
		c := coordinator(b, pool)
		lines := make([]*uniquelock.Coordinator, waiters)
		for i := range lines {
			lines[i] = c
		}
		handOver(b, pool, lines)
	})
	b.Run("four-processes/waiters=16", func(b *testing.B) {
		pool := newPool(b, 16)
		lines := make([]*uniquelock.Coordinator, waiters)
		for i := range lines {
			if i < 4 {
				lines[i] = coordinator(b, pool)
			} else {
				lines[i] = lines[i%4]
			}
		}
		handOver(b, pool, lines)
	})
}

func handOver(b *testing.B, pool *pgxpool.Pool, lines []*uniquelock.Coordinator) {
	ctx := context.Background()
	if _, err := pool.Exec(ctx, "CREATE TABLE single (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO single VALUES (1, 0)", pgx.QueryExecModeSimpleProtocol); err != nil {
		b.Fatal(err)
	}
	const rounds = 10 // hand-overs and updates per iteration
	var hand, slow, update, ratios []float64
	for b.Loop() {
		took := handOvers(ctx, b, lines, rounds)
		h := median(took) // sorts
		slow = append(slow, took[len(took)*99/100])
		u := updates(ctx, b, pool, rounds)
		hand, update, ratios = append(hand, h), append(update, u), append(ratios, h/u)
	}
	b.ReportMetric(median(hand), "handover-µs-p50")
	b.ReportMetric(median(slow), "handover-µs-p99")
	b.ReportMetric(median(update), "update-µs-p50")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(0, "ns/op")
}

// handOvers returns the times from a release to the next start, in µs.
func handOvers(ctx context.Context, b *testing.B, lines []*uniquelock.Coordinator, rounds int) (took []float64) {
	var mu sync.Mutex
	var released time.Time
	var group sync.WaitGroup
	for _, c := range lines {
		group.Add(1)
		go func() {
			defer group.Done()
			for range rounds {
				lease, err := c.Lock(ctx, "hot", uniquelock.LockOptions{})
				now := time.Now()
				if err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				if !released.IsZero() {
					took = append(took, float64(now.Sub(released).Microseconds()))
				}
				released = time.Now()
				mu.Unlock()
				if err := lease.Release(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	group.Wait()
	return took
}

// updates returns the median of one durable update of a single row, in µs.
func updates(ctx context.Context, b *testing.B, pool *pgxpool.Pool, rounds int) float64 {
	var took []float64
	for range rounds {
		start := time.Now()
		if _, err := pool.Exec(ctx, "UPDATE single SET n = n + 1 WHERE id = 1"); err != nil {
			b.Fatal(err)
		}
		took = append(took, float64(time.Since(start).Microseconds()))
	}
	return median(took)
}
