package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/uniquelock"
)

// The two statements of a lease in the least that could work: no operation that
// is not needed, no guard for anything else.
const (
	bareGrant = `
WITH l AS MATERIALIZED (
  SELECT task_name, token FROM pgcoord.task_locks
   WHERE task_name = $1 AND expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED)
UPDATE pgcoord.task_locks t SET token = greatest(l.token + 1, pgcoord.next_fencing_token()), claim_id = $2, held = true,
       locked_at = clock_timestamp(), expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
  FROM l WHERE t.task_name = l.task_name RETURNING t.token`
	bareRelease = `
UPDATE pgcoord.task_locks SET held = false, expires_at = '-infinity'
 WHERE task_name = $1 AND token = $2 AND claim_id = $3`
)

// bare is a lease taken and released through pgx alone.
func bare(pool *pgxpool.Pool) work {
	return func(ctx context.Context, g, i int) error {
		id := fmt.Sprintf("%d-%d", g, i)
		var token int64
		if err := pool.QueryRow(ctx, bareGrant, key(g), id, int64(30_000_000)).Scan(&token); err != nil {
			return err
		}
		tag, err := pool.Exec(ctx, bareRelease, key(g), token, id)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%d rows released", tag.RowsAffected())
		}
		return err
	}
}

// BenchmarkUncontended takes and releases a key of its own in each goroutine.
func BenchmarkUncontended(b *testing.B) {
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("uniquelock/g=%d", goroutines), func(b *testing.B) {
			pool := newPool(b, min(goroutines, 32))
			c := coordinator(b, pool)
			for g := range goroutines {
				if err := pair(c)(context.Background(), g, 0); err != nil { // make the rows
					b.Fatal(err)
				}
			}
			compare(b, goroutines, "pairs", pair(c), "bare", bare(pool))
		})
	}
}

func pair(c *uniquelock.Coordinator) work {
	return func(ctx context.Context, g, _ int) error {
		claim, err := c.TryAcquire(ctx, key(g))
		if err != nil {
			return err
		}
		return claim.Release(ctx)
	}
}
