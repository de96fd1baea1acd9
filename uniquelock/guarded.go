package uniquelock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/guard"
	"github.com/pgcoord/pgcoord/internal/operation"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// lockedLimit is how long a guarded transaction tries to begin while somebody
// else has the claim's row locked, for a moment as a rule.
const lockedLimit = 5 * time.Second

// BeginFunc implements pgcoord.Claim. BEGIN and the guard are one round trip, the
// last check and COMMIT another.
//
// fn must not complete or release the lease, because that waits for fn. While it
// runs it occupies a connection of the pool; what it does with the pool needs
// another one.
func (l *Lease) BeginFunc(ctx context.Context, fn func(pgx.Tx) error) error {
	if err := l.gate.Enter(); err != nil {
		return describe("begin under", l.key, err)
	}
	defer l.gate.Leave()
	spec, err := l.spec(ctx)
	if err == nil {
		err = l.guarded(ctx, spec, fn)
	}
	return describe("guarded transaction of", l.key, err)
}

// spec returns what guards the transactions of l under ctx.
func (l *Lease) spec(ctx context.Context) (guard.Spec, error) {
	idle := strconv.FormatInt(l.c.opts.IdleLimit.Milliseconds(), 10)
	spec := guard.Spec{
		Lock:  guard.Statement{SQL: guardSQL, Args: []any{l.key, l.token, l.claimID, idle}},
		Token: l.token,
	}
	id, named, err := operation.From(ctx, domain, l.key)
	if named {
		spec.Operation = &id
	}
	return spec, err
}

// guarded runs fn under spec. A refusal is looked into: either the claim is not
// current, or its row was locked, which is tried again.
func (l *Lease) guarded(ctx context.Context, spec guard.Spec, fn func(pgx.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not begun: %w", err)
	}
	limit := time.Now().Add(lockedLimit)
	for pause := lockedPause; ; pause = min(2*pause, pollEvery) {
		err := guard.Run(ctx, l.c.pool, spec, fn)
		if !errors.Is(err, guard.ErrRefused) {
			return l.lossIn(ctx, err)
		}
		now, err := l.c.current(ctx, l.key)
		switch {
		case err != nil:
			return err
		case !now.is(l):
			return l.gate.Refuse(now.lossOf(l))
		case time.Now().After(limit):
			return fmt.Errorf("%w: another session has the claim's row locked", pgcoord.ErrConflict)
		}
		if err := statement.Sleep(ctx, jitter(pause)); err != nil {
			return err
		}
	}
}

// lossIn finds a loss behind the failure of a guarded transaction: the server
// refused the claim, or ended the transaction at its idle limit, and then the key
// may have gone to another.
func (l *Lease) lossIn(ctx context.Context, err error) error {
	switch pgerr.Code(err) {
	case pgerr.Gone:
		return l.gate.Refuse(l.c.why(ctx, l))
	case pgerr.IdleInTransaction:
		if now, readErr := l.c.current(ctx, l.key); readErr == nil && !now.is(l) {
			return errors.Join(l.gate.Refuse(now.lossOf(l)), err)
		}
	}
	return err
}

// Guard locks the claim within a transaction of the caller, which then commits
// only while the claim is current. In a transaction of level REPEATABLE READ or
// SERIALIZABLE it must be the first statement.
//
// It fails with pgcoord.ErrLost when the claim is not current, and with
// pgcoord.ErrConflict when the transaction is older than a change of the claim,
// or somebody else has its row locked. The caller must roll back then.
//
// The lease knows nothing of the transaction: Complete and Release do not wait
// for it in this process, but Complete does in the database.
func (l *Lease) Guard(ctx context.Context, tx pgx.Tx) error {
	if err := l.gate.Ended(); err != nil {
		return describe("guard", l.key, err)
	}
	var token int64
	err := tx.QueryRow(ctx, guardInSQL, l.key, l.token, l.claimID).Scan(&token)
	if errors.Is(err, pgx.ErrNoRows) {
		now, readErr := l.c.current(ctx, l.key) // not in tx, which may be old
		switch {
		case readErr != nil:
			err = readErr
		case now.is(l):
			err = fmt.Errorf("%w: another session has the claim's row locked", pgcoord.ErrConflict)
		default:
			err = l.gate.Refuse(now.lossOf(l))
		}
	}
	return describe("guard", l.key, err)
}
