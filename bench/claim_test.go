package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/statemachine"
)

// newJobs makes a table of rows jobs and a coordinator on it.
func newJobs(b *testing.B, pool *pgxpool.Pool, rows int) *statemachine.Coordinator {
	b.Helper()
	ctx := context.Background()
	m, err := statemachine.Define(statemachine.Definition{
		Table:   "jobs",
		Initial: []statemachine.State{"PENDING"},
		Transitions: []statemachine.Transition{
			{From: "PENDING", To: "PROCESSING"},
			{From: "PROCESSING", To: "DONE"},
			{From: "PROCESSING", To: "PENDING"},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ddl, err := m.DDL(statemachine.DDLOptions{KeyTypes: []string{"bigint"}, Claimable: []statemachine.State{"PENDING"}})
	if err != nil {
		b.Fatal(err)
	}
	for _, sql := range []string{
		"DROP TABLE IF EXISTS jobs", ddl,
		fmt.Sprintf("INSERT INTO jobs (id, status) SELECT n, 'PENDING' FROM generate_series(1, %d) n", rows),
		"VACUUM ANALYZE jobs", "CHECKPOINT",
	} {
		if _, err := pool.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			b.Fatal(err)
		}
	}
	c, err := statemachine.New(pool, statemachine.Options{Machine: m, Step: statemachine.Step{
		Ready: "PENDING", Working: "PROCESSING", Done: "DONE", TTL: time.Hour,
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return c
}

// BenchmarkClaimBatch claims 100 rows in one statement, against 100 batches of one.
func BenchmarkClaimBatch(b *testing.B) {
	const size = 100
	pool := newPool(b, 2)
	ctx := context.Background()
	for _, rows := range []int{10_000} {
		b.Run(fmt.Sprintf("size=%d/rows=%d", size, rows), func(b *testing.B) {
			c := newJobs(b, pool, rows)
			take := func(n int) time.Duration {
				start := time.Now()
				attempts, err := c.ClaimBatch(ctx, n)
				took := time.Since(start)
				if err != nil || len(attempts) != n {
					b.Fatalf("%d claimed: %v", len(attempts), err)
				}
				return took
			}
			take(1)
			take(size)
			var ratios, batches, singles []float64
			for b.Loop() {
				if len(ratios) >= rows/(3*size) { // the rows are used up
					break
				}
				var single time.Duration
				for range size {
					single += take(1)
				}
				batch := take(size)
				ratios = append(ratios, single.Seconds()/batch.Seconds())
				batches = append(batches, size/batch.Seconds())
				singles = append(singles, size/single.Seconds())
			}
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(median(batches), "batched-rows/s")
			b.ReportMetric(median(singles), "single-rows/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkClaimGrowth claims the next row of tables of different sizes, in turn.
func BenchmarkClaimGrowth(b *testing.B) {
	sizes := []int{10_000, 1_000_000}
	if testing.Short() {
		sizes = []int{1_000, 10_000}
	}
	ctx := context.Background()
	var coordinators []*statemachine.Coordinator
	for _, rows := range sizes {
		coordinators = append(coordinators, newJobs(b, newPool(b, 2), rows))
	}
	costs := make([][]float64, len(sizes))
	for b.Loop() {
		for i, c := range coordinators {
			const claims = 20
			start := time.Now()
			for range claims {
				if attempts, err := c.ClaimBatch(ctx, 1); err != nil || len(attempts) != 1 {
					b.Fatalf("%d claimed: %v", len(attempts), err)
				}
			}
			costs[i] = append(costs[i], float64(time.Since(start).Microseconds())/claims)
		}
	}
	for i, rows := range sizes {
		b.ReportMetric(median(costs[i]), fmt.Sprintf("µs/claim-of-%d", rows))
	}
	b.ReportMetric(median(costs[len(sizes)-1])/median(costs[0]), "ratio")
	b.ReportMetric(0, "ns/op")
}
