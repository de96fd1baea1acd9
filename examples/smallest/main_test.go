package main

import (
	"context"
	"testing"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestRun(t *testing.T) {
	dsn := pgtest.EmptyDSN(t)
	t.Setenv("DATABASE_URL", dsn)
	ctx, pool := t.Context(), pgtest.Pool(t, dsn)
	visits := func(want int) {
		t.Helper()
		var n int
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM visits").Scan(&n); err != nil || n != want {
			t.Fatalf("%d visits, %v; want %d", n, err, want)
		}
	}
	for n := 1; n <= 2; n++ {
		if err := run(ctx); err != nil {
			t.Fatal(err)
		}
		visits(n)
	}

	other, err := uniquelock.New(pool, uniquelock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	if _, err := other.TryAcquire(ctx, "visits"); err != nil {
		t.Fatal(err)
	}
	if err := run(ctx); err != nil {
		t.Fatal(err)
	}
	visits(2)
}
