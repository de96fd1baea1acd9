package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// runJobs does the main job of the library on pool: two processes, here two
// coordinators, take turns on a key, and each writes under its claim.
func runJobs(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	ctx := bounded(t, 30*time.Second)
	if _, err := pool.Exec(ctx, "CREATE TABLE effects (token bigint)"); err != nil {
		t.Fatal(err)
	}
	a, b := coordinator(t, pool, "a"), coordinator(t, pool, "b")

	first, err := a.TryAcquire(ctx, "job")
	if err != nil {
		t.Fatal(err)
	}
	var held *pgcoord.HeldError
	if _, err := b.TryAcquire(ctx, "job"); !errors.As(err, &held) || held.Holder != "a" || held.Token != first.Token() {
		t.Fatalf("b while a holds: %v, want it held by a under %d", err, first.Token())
	}
	write(t, ctx, first)

	got := make(chan pgcoord.Claim, 1)
	go func() {
		claim, err := b.Acquire(ctx, "job")
		if err != nil {
			t.Error(err)
		}
		got <- claim
	}()
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	second := <-got
	if second == nil {
		t.FailNow()
	}
	if second.Token() <= first.Token() {
		t.Errorf("token %d after %d", second.Token(), first.Token())
	}
	if err := first.BeginFunc(ctx, func(pgx.Tx) error { return nil }); !errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("the released claim begins: %v, want ErrLost", err)
	}
	write(t, ctx, second)
	if err := second.Complete(ctx, nil); err != nil {
		t.Fatal(err)
	}
	var effects int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM effects").Scan(&effects); err != nil || effects != 2 {
		t.Errorf("%d effects (%v), want 2", effects, err)
	}
}

func coordinator(t *testing.T, pool *pgxpool.Pool, holder string) *uniquelock.Coordinator {
	t.Helper()
	c, err := uniquelock.New(pool, uniquelock.Options{Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, c)
	return c
}

func write(t *testing.T, ctx context.Context, claim pgcoord.Claim) {
	t.Helper()
	err := claim.BeginFunc(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", claim.Token())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
