package uniquelock

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/guard"
	"github.com/pgcoord/pgcoord/internal/operation"
)

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

// guarded runs fn under spec.
func (l *Lease) guarded(ctx context.Context, spec guard.Spec, fn func(pgx.Tx) error) error {
	return guard.Under(ctx, l.c.pool, l.gate, l.look, spec, fn)
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
		lost, lookErr := l.look(ctx) // not in tx, which may be old
		switch {
		case lookErr != nil:
			err = lookErr
		case lost != nil:
			err = l.gate.Refuse(lost)
		default:
			err = guard.ErrLocked
		}
	}
	return describe("guard", l.key, err)
}
