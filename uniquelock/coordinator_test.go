package uniquelock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/uniquelock"
)

func TestGrantHoldRelease(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	pool := newPool(t)
	exec(t, pool, "CREATE TABLE acct (id int PRIMARY KEY, bal int NOT NULL)")
	exec(t, pool, "INSERT INTO acct VALUES (1, 100)")
	a := newCoordinator(t, pool, uniquelock.Options{Holder: "A"})
	b := newCoordinator(t, pool, uniquelock.Options{Holder: "B"})

	claim, err := a.TryAcquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.TryAcquire(ctx, "k")
	var held *pgcoord.HeldError
	if !errors.As(err, &held) || held.Holder != "A" || held.Token != claim.Token() || held.Until.IsZero() {
		t.Fatalf("second try: %v", err)
	}
	add := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE acct SET bal = bal + 1 WHERE id = 1")
		return err
	}
	if err := claim.BeginFunc(ctx, add); err != nil {
		t.Fatal(err)
	}
	if err := claim.Complete(ctx, add); err != nil {
		t.Fatal(err)
	}
	if err := claim.Complete(ctx, add); !errors.Is(err, pgcoord.ErrDone) {
		t.Fatalf("second complete: %v", err)
	}
	if err := claim.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if bal := scan[int](t, pool, "SELECT bal FROM acct"); bal != 102 {
		t.Fatalf("bal %d", bal)
	}
	next, err := b.TryAcquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if next.Token() <= claim.Token() {
		t.Fatalf("token %d after %d", next.Token(), claim.Token())
	}
	if err := next.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := next.Release(ctx); err != nil {
		t.Fatal(err)
	}
}
