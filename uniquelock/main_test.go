package uniquelock_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/conformance"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

func TestMain(m *testing.M) { conformance.Main(m, freed, done) }

// newPool returns a pool on a new migrated database.
func newPool(t testing.TB, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	return pgtest.Pool(t, pgtest.DSN(t), change...)
}

// newCoordinator returns a coordinator on pool that is closed at the end of the
// test.
func newCoordinator(t testing.TB, pool *pgxpool.Pool, opts uniquelock.Options) *uniquelock.Coordinator {
	t.Helper()
	c, err := uniquelock.New(pool, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// within returns a context for a test that must not hang.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(within(t, 10*time.Second), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func scan[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	rows, err := pool.Query(within(t, 10*time.Second), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}
