package uniquelock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgcoord/pgcoord/uniquelock"
)

// TestErrorOfTheFunction: a missing table of the caller's is not taken for one of
// the library's.
func TestErrorOfTheFunction(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	c := newCoordinator(t, newPool(t), uniquelock.Options{})
	lease, err := c.TryLock(ctx, "k", uniquelock.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(context.Context, func(pgx.Tx) error) error{
		"BeginFunc": lease.BeginFunc,
		"Complete":  lease.Complete,
		"TryDoTx": func(ctx context.Context, fn func(pgx.Tx) error) error {
			return c.TryDoTx(ctx, "another", fn)
		},
	} {
		err := run(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO missing VALUES (1)")
			return err
		})
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "42P01" {
			t.Errorf("%s: %v, want 42P01", name, err)
		} else if strings.Contains(err.Error(), "migrations") {
			t.Errorf("%s: %v, which blames the schema pgcoord", name, err)
		}
	}
}
