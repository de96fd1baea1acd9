// Package statement runs single statements, each a READ COMMITTED transaction of
// its own, on a pool that belongs to somebody else. It leaves no setting behind,
// whatever isolation level the role has by default.
package statement

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/pgerr"
)

const (
	// limit bounds one statement; none of the library's waits for a lock longer.
	limit = 10 * time.Second
	// attempts is how often a statement is sent when its reply gets lost.
	attempts = 3
	// pause lies between two attempts.
	pause = 20 * time.Millisecond
)

// Runner runs statements on a pool.
type Runner struct {
	pool *pgxpool.Pool
}

// NewRunner returns a Runner on pool.
func NewRunner(pool *pgxpool.Pool) *Runner { return &Runner{pool: pool} }

// Result is what became of a statement that failed.
type Result struct {
	// Sent: some attempt may have had an effect whose reply was lost.
	Sent bool
}

// QueryRow runs sql, which must return one row, and scans it. It fails with
// pgx.ErrNoRows when there is none. After a lost reply it sends the statement
// again: it must recognise its own earlier effect.
func (r *Runner) QueryRow(ctx context.Context, sql string, args []any, dest ...any) (Result, error) {
	return r.send(ctx, func(ctx context.Context, conn *pgx.Conn, plain bool) error {
		if plain {
			return conn.QueryRow(ctx, sql, args...).Scan(dest...)
		}
		found := false
		err := wrapped(ctx, conn, func(batch *pgx.Batch) {
			batch.Queue(sql, args...).QueryRow(func(row pgx.Row) error {
				err := row.Scan(dest...)
				found = err == nil
				if errors.Is(err, pgx.ErrNoRows) {
					return nil
				}
				return err
			})
		})
		if err == nil && !found {
			return pgx.ErrNoRows
		}
		return err
	})
}

// Exec runs sql and returns how many rows it affected; else as QueryRow.
func (r *Runner) Exec(ctx context.Context, sql string, args ...any) (rows int64, result Result, err error) {
	result, err = r.send(ctx, func(ctx context.Context, conn *pgx.Conn, plain bool) error {
		if plain {
			tag, err := conn.Exec(ctx, sql, args...)
			rows = tag.RowsAffected()
			return err
		}
		return wrapped(ctx, conn, func(batch *pgx.Batch) {
			batch.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
				rows = tag.RowsAffected()
				return nil
			})
		})
	})
	return rows, result, err
}

// Rows runs sql and calls fn with each row; else as QueryRow. After a failure, fn
// may have been called.
func (r *Runner) Rows(ctx context.Context, sql string, args []any, fn func(pgx.CollectableRow) error) (Result, error) {
	collect := func(rows pgx.Rows) error {
		_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, fn(row) })
		return err
	}
	return r.send(ctx, func(ctx context.Context, conn *pgx.Conn, plain bool) error {
		return Within(ctx, conn, plain, sql, args, collect)
	})
}

// send runs fn, again after a lost reply.
func (r *Runner) send(ctx context.Context, fn func(ctx context.Context, conn *pgx.Conn, plain bool) error) (Result, error) {
	var result Result
	for attempt := 1; ; attempt++ {
		called := false // else no connection was to be had
		err := r.Do(ctx, func(ctx context.Context, conn *pgx.Conn, plain bool) error {
			called = true
			return fn(ctx, conn, plain)
		})
		if err == nil || errors.Is(err, pgx.ErrNoRows) {
			return result, err
		}
		if called && !pgerr.Certain(err) {
			result.Sent = true
		}
		if ctx.Err() != nil || attempt == attempts || !pgerr.Transient(err) {
			return result, err
		}
		if err := Sleep(ctx, pause); err != nil {
			return result, err
		}
	}
}

// Do runs fn once on a connection of the pool. Plain tells that statements on it
// run in READ COMMITTED by default; else fn must begin a transaction that says so.
//
// The context of fn outlives ctx by Grace: a statement under way is of more use
// finished than cut.
func (r *Runner) Do(parent context.Context, fn func(ctx context.Context, conn *pgx.Conn, plain bool) error) error {
	conn, err := r.pool.Acquire(parent)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, cancel := Outlive(parent, Grace, limit)
	defer cancel()
	plain, err := ReadCommitted(ctx, conn.Conn())
	if err == nil {
		err = fn(ctx, conn.Conn(), plain)
	}
	if err != nil && parent.Err() != nil && !errors.Is(err, pgx.ErrNoRows) {
		err = errors.Join(err, parent.Err()) // both are true
	}
	return err
}

// wrapped runs what queue queues in an explicit READ COMMITTED transaction, in
// one round trip.
func wrapped(ctx context.Context, conn *pgx.Conn, queue func(*pgx.Batch)) error {
	batch := &pgx.Batch{}
	batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	queue(batch)
	batch.Queue("commit")
	results := conn.SendBatch(ctx, batch)
	err := results.Close()
	if err != nil {
		_ = results.Tx().Rollback(ctx) // a failure of this closes the connection
	}
	return err
}
