// Package operation keeps the record of applied operations: a marker row that a
// guarded transaction inserts under the caller's own id, in the same commit as
// the effects. A repetition finds the marker; who wants to know what became of
// an operation inserts a tombstone in its place, which decides it.
package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/keys"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// Waits on the unique index for a transaction that has the same id under way, so
// that 0 rows means: decided.
const markSQL = `
INSERT INTO pgcoord.operations (domain, key, operation_id, token, applied)
VALUES ($1::text, $2::text, $3::text, $4::bigint, true) ON CONFLICT DO NOTHING`

const readSQL = `
SELECT applied FROM pgcoord.operations WHERE domain = $1::text AND key = $2::text AND operation_id = $3::text`

// The tombstone; the same wait as above.
const withdrawSQL = `
INSERT INTO pgcoord.operations (domain, key, operation_id, token, applied)
SELECT $1::text, $2::text, $3::text, 0, false WHERE ` + statement.Durable + ` IS NOT NULL
ON CONFLICT DO NOTHING RETURNING applied`

// ID names an operation: what it is done to, and the caller's id.
type ID struct {
	Domain, Key, Operation string
}

// From returns the operation that ctx names, if any.
func From(ctx context.Context, domain, key string) (id ID, ok bool, err error) {
	name, ok := pgcoord.Operation(ctx)
	if !ok {
		return ID{}, false, nil
	}
	if err := keys.CheckID("operation id", name); err != nil {
		return ID{}, false, err
	}
	return ID{Domain: domain, Key: key, Operation: name}, true, nil
}

// Mark queues the marker of a claim's operation onto the batch that begins its
// guarded transaction. Inserted receives whether it is the first.
func (id ID) Mark(batch *pgx.Batch, token int64, inserted *bool) {
	batch.Queue(markSQL, id.Domain, id.Key, id.Operation, token).Exec(func(tag pgconn.CommandTag) error {
		*inserted = tag.RowsAffected() == 1
		return nil
	})
}

// Refusal tells, inside the transaction whose marker was not the first, what the
// operation's repetition has to hear.
func (id ID) Refusal(ctx context.Context, tx pgx.Tx) error {
	var applied bool
	if err := tx.QueryRow(ctx, readSQL, id.Domain, id.Key, id.Operation).Scan(&applied); err != nil {
		return err
	}
	if applied {
		return fmt.Errorf("%w: operation %q was applied before", pgcoord.ErrDone, id.Operation)
	}
	return fmt.Errorf("%w: operation %q was withdrawn by Resolve; it needs a new id", pgcoord.ErrConflict, id.Operation)
}

// Resolve decides the operation: it was applied, or it never will be.
func Resolve(ctx context.Context, runner *statement.Runner, id ID) (pgcoord.Outcome, error) {
	if err := errors.Join(keys.Check(id.Key), keys.CheckID("operation id", id.Operation)); err != nil {
		return 0, err
	}
	var applied bool
	args := []any{id.Domain, id.Key, id.Operation}
	_, err := runner.QueryRow(ctx, withdrawSQL, args, &applied)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = runner.QueryRow(ctx, readSQL, args, &applied)
	}
	if err != nil {
		return 0, pgerr.Describe("resolve operation of", id.Key, err)
	}
	if applied {
		return pgcoord.Applied, nil
	}
	return pgcoord.NotApplied, nil
}
