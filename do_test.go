package pgcoord_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
)

// The transaction that ends the claim is not the operation's: it must not meet
// the marker that the function's own transaction has left.
func TestDoUnderAnOperationEndsTheClaim(t *testing.T) {
	ctx := pgcoord.WithOperation(ctx, "op")
	work := func(ctx context.Context, claim pgcoord.Claim) error {
		return claim.BeginFunc(ctx, func(pgx.Tx) error { return nil })
	}
	if err := pgcoord.Do(ctx, locks, "do-operation", work); err != nil {
		t.Fatal(err)
	}
	if err := pgcoord.TryDo(ctx, locks, "do-operation", work); !errors.Is(err, pgcoord.ErrDone) {
		t.Errorf("the same operation again: %v, want done", err)
	}
}
