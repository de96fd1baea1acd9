package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newPool returns a pool of conns connections on a new migrated database, on a
// server of its own with fsync on and its data on disk.
func newPool(b *testing.B, conns int) *pgxpool.Pool {
	b.Helper()
	server, err := localpg.Start(context.Background(), localpg.Options{Own: true, Settings: map[string]string{"fsync": "on"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := server.Stop(); err != nil {
			b.Error(err)
		}
	})
	return pgtest.Pool(b, pgtest.DSNOn(b, server), func(c *pgxpool.Config) {
		c.MaxConns, c.MinConns = int32(conns), int32(conns)
	})
}

// coordinator returns a uniquelock coordinator that is closed at the end of b.
func coordinator(b *testing.B, pool *pgxpool.Pool) *uniquelock.Coordinator {
	b.Helper()
	c, err := uniquelock.New(pool, uniquelock.Options{})
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

// work is one operation of goroutine g, as the i-th of it.
type work func(ctx context.Context, g, i int) error

// rate runs fn in goroutines for about d and returns operations per second.
func rate(b *testing.B, goroutines int, d time.Duration, fn work) float64 {
	b.Helper()
	ctx := context.Background()
	var done atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for g := range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; time.Since(start) < d; i++ {
				if err := fn(ctx, g, i); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		}()
	}
	group.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

// compare runs two works in turn, b.N times at least and in rounds rounds if that
// is asked for, and reports the median of each and of their ratio.
func compare(b *testing.B, goroutines int, name string, fn work, baseName string, base work) {
	b.Helper()
	const slice = 200 * time.Millisecond
	rate(b, goroutines, slice/2, fn) // warm: connections, prepared statements
	rate(b, goroutines, slice/2, base)
	var rates, bases, ratios []float64
	for b.Loop() {
		r, s := rate(b, goroutines, slice, fn), rate(b, goroutines, slice, base)
		rates, bases, ratios = append(rates, r), append(bases, s), append(ratios, r/s)
	}
	b.ReportMetric(median(rates), name+"/s")
	b.ReportMetric(median(bases), baseName+"/s")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(0, "ns/op")
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	slices.Sort(xs)
	return xs[len(xs)/2]
}

func key(g int) string { return fmt.Sprintf("key-%d", g) }
