package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/gate"
	"github.com/pgcoord/pgcoord/internal/pace"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// LockedLimit is how long a guarded transaction tries to begin while somebody else
// has the claim's row locked, for a moment as a rule.
const LockedLimit = 5 * time.Second

// ErrLocked reports that somebody has had the claim's row locked for LockedLimit.
var ErrLocked = fmt.Errorf("%w: another session has the claim's row locked", pgcoord.ErrConflict)

// Look asks the database how a claim stands: lost is nil while it is current, else
// it tells in words what became of it.
type Look func(ctx context.Context) (lost, err error)

// Under runs fn in a transaction guarded by spec. A refusal is looked into: either
// the claim is not current, which the gate is told, or its row was locked, which
// is tried again.
func Under(ctx context.Context, pool *pgxpool.Pool, g *gate.Gate, look Look, spec Spec, fn func(pgx.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not begun: %w", err)
	}
	var pause pace.Backoff
	limit := time.Now().Add(LockedLimit)
	for {
		err := Run(ctx, pool, spec, fn)
		if !errors.Is(err, ErrRefused) {
			return lossIn(ctx, g, look, err)
		}
		lost, err := look(ctx)
		switch {
		case err != nil:
			return err
		case lost != nil:
			return g.Refuse(lost)
		case time.Now().After(limit):
			return ErrLocked
		}
		if err := statement.Sleep(ctx, pause.Next()); err != nil {
			return err
		}
	}
}

// lossIn finds a loss behind the failure of a guarded transaction: the server
// refused the claim, or ended the transaction at its idle limit, and then the key
// may have gone to another.
func lossIn(ctx context.Context, g *gate.Gate, look Look, err error) error {
	code := pgerr.Code(err)
	if code != pgerr.Gone && code != pgerr.IdleInTransaction {
		return err
	}
	lost, lookErr := look(ctx)
	switch {
	case lost == nil && pgerr.FromCaller(err): // raised by something else than the guard
		return err
	case code == pgerr.Gone && lost == nil: // it is, whatever can be learned of it
		return g.Refuse(errors.Join(err, lookErr))
	case code == pgerr.Gone:
		return g.Refuse(lost)
	case lost != nil:
		return errors.Join(g.Refuse(lost), err)
	}
	return err
}
