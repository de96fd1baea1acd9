package pgcoord_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord"
)

func TestHeldError(t *testing.T) {
	until := time.Date(2030, 1, 2, 4, 4, 5, 678_000_000, time.FixedZone("", 3600))
	tests := []struct {
		err  pgcoord.HeldError
		want string
	}{
		{pgcoord.HeldError{Key: "k"}, `pgcoord: key "k" is held`},
		{pgcoord.HeldError{Key: "a\nb", Holder: `x"y`}, `pgcoord: key "a\nb" is held by "x\"y"`},
		{pgcoord.HeldError{Key: "k", Token: 33}, `pgcoord: key "k" is held under token 33`},
		{
			pgcoord.HeldError{Key: "k", Holder: "A", Token: 33, Since: until, Until: until},
			`pgcoord: key "k" is held by "A" under token 33 until 2030-01-02T03:04:05.678Z`,
		},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		wrapped := fmt.Errorf("try: %w", &tt.err)
		var held *pgcoord.HeldError
		if !errors.Is(wrapped, pgcoord.ErrHeld) || errors.Is(wrapped, pgcoord.ErrLost) || !errors.As(wrapped, &held) {
			t.Errorf("%v does not match ErrHeld alone", wrapped)
		}
	}
}

// TestSentinels: callers decide by them, so none may match another.
func TestSentinels(t *testing.T) {
	all := []error{
		pgcoord.ErrHeld, pgcoord.ErrDone, pgcoord.ErrNotFound, pgcoord.ErrLost,
		pgcoord.ErrConflict, pgcoord.ErrOutcomeUnknown, pgcoord.ErrInvalidKey, pgcoord.ErrClosed,
	}
	for i, a := range all {
		for j, b := range all {
			if errors.Is(a, b) != (i == j) {
				t.Errorf("errors.Is(%v, %v) is %v", a, b, i != j)
			}
		}
	}
}

func TestOutcome(t *testing.T) {
	if got := fmt.Sprint(pgcoord.Applied, ", ", pgcoord.NotApplied); got != "applied, not applied" {
		t.Errorf("got %s", got)
	}
}

func TestRequestIDs(t *testing.T) {
	ctx := context.Background()
	if id, ok := pgcoord.GrantID(ctx); ok {
		t.Errorf("a bare context has grant id %q", id)
	}
	if id, ok := pgcoord.Operation(ctx); ok {
		t.Errorf("a bare context has operation %q", id)
	}
	ctx = pgcoord.WithOperation(pgcoord.WithGrantID(ctx, "grant"), "operation")
	if id, ok := pgcoord.GrantID(ctx); id != "grant" || !ok {
		t.Errorf("grant id %q, %v", id, ok)
	}
	if id, ok := pgcoord.Operation(ctx); id != "operation" || !ok {
		t.Errorf("operation %q, %v", id, ok)
	}
	// The newest counts, and an empty id is an id: the strategies refuse it.
	if id, ok := pgcoord.Operation(pgcoord.WithOperation(ctx, "")); id != "" || !ok {
		t.Errorf("operation %q, %v", id, ok)
	}
}
