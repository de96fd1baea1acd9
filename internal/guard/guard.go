package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/operation"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// ErrRefused reports that the lock found no current claim to lock, or found it
// locked by somebody else: the caller must look which.
var ErrRefused = errors.New("pgcoord: guard refused")

const (
	attempts   = 3                // to begin
	beginLimit = 10 * time.Second // of the trip that begins
	endLimit   = 10 * time.Second // of the trip that commits
)

// requireSQL fails unless it runs in the transaction that took the lock.
const requireSQL = `SELECT pgcoord.require_transaction($1::text)`

// Statement is one SQL statement with its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// Spec says what guards a transaction.
type Spec struct {
	// Before runs ahead of Lock, for its effect alone.
	Before *Statement
	// Lock locks the claim and returns one row with the id of the transaction as
	// text (pg_current_xact_id()) and one more column, or no row.
	Lock Statement
	// Operation is marked as applied when set.
	Operation *operation.ID
	Token     int64
	// Finish runs just before the commit; it must raise to prevent it.
	Finish []Statement
}

// Run runs fn in a transaction guarded by spec, on a connection of pool.
//
// It fails with ErrRefused, an error of fn, an error of the server, or
// pgcoord.ErrOutcomeUnknown; after all but the last nothing is stored.
func Run(ctx context.Context, pool *pgxpool.Pool, spec Spec, fn func(pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		began, err := runOnce(ctx, pool, spec, fn)
		if err == nil || began || attempt == attempts || ctx.Err() != nil || !pgerr.Transient(err) {
			return err
		}
	}
}

// runOnce reports whether the transaction began: until then, a connection that
// died in the pool is no reason to fail.
func runOnce(ctx context.Context, pool *pgxpool.Pool, spec Spec, fn func(pgx.Tx) error) (began bool, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release() // closes the connection if a transaction is still open on it
	open, err := begin(ctx, conn.Conn(), spec)
	if err != nil {
		return false, err
	}
	return true, open.run(ctx, spec, fn)
}

// begun is a transaction whose guard holds.
type begun struct {
	conn *pgx.Conn
	tx   pgx.Tx
	xact string
}

func begin(parent context.Context, conn *pgx.Conn, spec Spec) (*begun, error) {
	ctx, cancel := statement.Outlive(parent, statement.Grace, beginLimit)
	defer cancel()
	b := &begun{conn: conn}
	marked, locked := true, false
	var setting string
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if spec.Before != nil {
		batch.Queue(spec.Before.SQL, spec.Before.Args...)
	}
	batch.Queue(spec.Lock.SQL, spec.Lock.Args...).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&b.xact, &setting)
		locked = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if spec.Operation != nil {
		spec.Operation.Mark(batch, spec.Token, &marked)
	}
	results := conn.SendBatch(ctx, batch)
	err := results.Close()
	b.tx = results.Tx()
	switch {
	case err != nil:
	case !locked:
		err = ErrRefused
	case !marked:
		err = spec.Operation.Refusal(ctx, b.tx)
	default:
		return b, nil
	}
	_ = b.tx.Rollback(ctx) // a failure of this closes the connection
	if parent.Err() != nil && !errors.Is(err, ErrRefused) {
		err = errors.Join(err, parent.Err()) // both are true
	}
	return nil, err
}

// run calls fn and ends the transaction. Deferred, so that a panic and
// runtime.Goexit in fn roll back too.
func (b *begun) run(ctx context.Context, spec Spec, fn func(pgx.Tx) error) (err error) {
	committing := false
	user := &tx{Tx: b.tx}
	defer func() {
		user.closed.Store(true)
		if !committing {
			b.rollback(ctx)
		}
	}()
	if fn != nil {
		if err := fn(user); err != nil {
			return pgerr.Callers(err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not committed: %w", err)
	}
	committing = true
	return b.commit(ctx, spec)
}

func (b *begun) rollback(parent context.Context) {
	ctx, cancel := statement.Outlive(parent, statement.Grace, endLimit)
	defer cancel()
	_ = b.tx.Rollback(ctx) // a failure of this closes the connection, which rolls back
}

func (b *begun) commit(parent context.Context, spec Spec) error {
	if b.conn.PgConn().TxStatus() == 'E' {
		b.rollback(parent)
		return fmt.Errorf("%w: a statement of the function failed and its error was ignored", pgx.ErrTxCommitRollback)
	}
	ctx, cancel := statement.Outlive(parent, statement.Grace, endLimit)
	defer cancel()
	var tag pgconn.CommandTag
	batch := &pgx.Batch{}
	batch.Queue(requireSQL, b.xact)
	for _, s := range spec.Finish {
		batch.Queue(s.SQL, s.Args...)
	}
	batch.Queue("commit").Exec(func(t pgconn.CommandTag) error { tag = t; return nil })
	err := b.conn.SendBatch(ctx, batch).Close()
	switch {
	case err == nil && tag.String() == "COMMIT":
		return nil
	case err == nil:
		return pgx.ErrTxCommitRollback
	case b.conn.PgConn().IsClosed() && !pgerr.Certain(err):
		return errors.Join(fmt.Errorf("%w: %w", pgcoord.ErrOutcomeUnknown, err), parent.Err())
	}
	b.rollback(parent)
	return errors.Join(err, parent.Err())
}
