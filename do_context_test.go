package pgcoord_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
)

// strict is a desk whose claims end only under a context that has not ended.
type strict struct {
	*desk
	t *testing.T
}

func (s strict) Acquire(context.Context, string) (pgcoord.Claim, error) { return s, nil }

func (s strict) Complete(ctx context.Context, fn func(pgx.Tx) error) error {
	s.living(ctx)
	return s.desk.Complete(ctx, fn)
}

func (s strict) Release(ctx context.Context) error {
	s.living(ctx)
	return s.desk.Release(ctx)
}

func (s strict) living(ctx context.Context) {
	s.t.Helper()
	if err := ctx.Err(); err != nil {
		s.t.Errorf("the claim is to be ended under a context that has ended: %v", err)
	}
}

// TestDoAfterItsContext: the caller's context ends while the work runs; the claim
// is completed or released all the same.
func TestDoAfterItsContext(t *testing.T) {
	for end, work := range map[string]func(context.Context, pgcoord.Claim) error{"complete": succeed, "release": fail} {
		s := strict{newDesk(), t}
		ctx, cancel := context.WithCancel(t.Context())
		_ = pgcoord.Do(ctx, s, "k", func(ctx context.Context, claim pgcoord.Claim) error {
			cancel()
			return work(ctx, claim)
		})
		s.wantCalls(t, end)
	}
}
