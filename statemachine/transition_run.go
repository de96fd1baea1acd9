package statemachine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/statement"
)

const (
	// moveAttempts is how often a transition is sent when that does no harm.
	moveAttempts = 3
	// movePause lies between two attempts.
	movePause = 20 * time.Millisecond
)

// errWithdrawn is an operation that was given up for good.
var errWithdrawn = errors.New("was withdrawn by Resolve; it needs a new id")

// asker runs a statement and has scan read its rows.
type asker func(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error

// run moves the row.
func (v *move) run(ctx context.Context, where place) (Moved, error) {
	if where.own {
		return v.runOwn(ctx, where)
	}
	moved, sent, err := v.decide(ctx, onDB(where.db))
	if err != nil && sent && !where.inside && !pgerr.Certain(err) {
		err = fmt.Errorf("%w: %w", pgcoord.ErrOutcomeUnknown, err)
	}
	return moved, err
}

// runOwn moves the row in a transaction of the statement's own. It sends it again
// when it had no effect for certain, or has an operation's id to recognise it by.
func (v *move) runOwn(ctx context.Context, where place) (moved Moved, err error) {
	lost := false // some attempt may have had an effect
	for attempt := 1; ; attempt++ {
		var sent bool
		moved, sent, err = v.runOnce(ctx, where)
		uncertain := sent && !pgerr.Certain(err)
		lost = lost || uncertain
		if err == nil || attempt == moveAttempts || ctx.Err() != nil || !pgerr.Transient(err) || uncertain && v.op == nil {
			break
		}
		if pause := statement.Sleep(ctx, movePause); pause != nil {
			err = errors.Join(err, pause)
			break
		}
	}
	decided := err == nil || errors.Is(err, pgcoord.ErrDone) || errors.Is(err, errWithdrawn)
	if lost && !decided {
		err = fmt.Errorf("%w: %w", pgcoord.ErrOutcomeUnknown, err)
	}
	return moved, err
}

// runOnce runs the statement on one connection. Sent says that its outcome hangs
// on err.
func (v *move) runOnce(ctx context.Context, where place) (moved Moved, sent bool, err error) {
	conn := where.conn
	if where.pool != nil {
		c, err := where.pool.Acquire(ctx)
		if err != nil {
			return moved, false, err
		}
		defer c.Release()
		conn = c.Conn()
	}
	err = patiently(ctx, conn, func(ctx context.Context) error {
		plain, err := statement.ReadCommitted(ctx, conn)
		if err != nil {
			return err
		}
		moved, sent, err = v.decide(ctx, onConn(conn, plain))
		return err
	})
	return moved, sent, err
}

// decide runs the statement and, where it has not moved the row, looks why. Sent
// says that the outcome hangs on err; else it is known.
func (v *move) decide(ctx context.Context, ask asker) (moved Moved, sent bool, err error) {
	var was *string
	var token *int64
	locked := false
	f := v.form()
	err = ask(ctx, v.m.statement(v.shape, f), v.args(f), func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&was, &token}, func() error { locked = true; return nil })
		return err
	})
	if err != nil {
		return moved, true, err
	}
	if was != nil {
		return v.moved(State(*was), number(token)), false, nil
	}
	var seen standing
	sql, args := v.look()
	if err := ask(ctx, sql, args, seen.read); err != nil {
		return moved, false, err
	}
	return moved, false, v.refusal(seen, locked)
}

// standing is what stands there after a statement that moved nothing.
type standing struct {
	rows    int
	state   *string
	token   int64
	applied *bool // of the operation; nil: it is not decided
}

func (s *standing) read(rows pgx.Rows) error {
	var state *string
	var token *int64
	var applied *bool
	_, err := pgx.ForEachRow(rows, []any{&state, &token, &applied}, func() error {
		if applied != nil {
			s.applied = applied
			return nil
		}
		s.rows, s.state, s.token = s.rows+1, state, number(token)
		return nil
	})
	return err
}

// refusal tells why the row was not moved. Locked says that the statement had it.
func (v *move) refusal(seen standing, locked bool) error {
	switch {
	case seen.applied != nil && *seen.applied:
		return fmt.Errorf("%w: operation %q was applied before", pgcoord.ErrDone, v.op.Operation)
	case seen.applied != nil:
		return fmt.Errorf("%w: operation %q %w", pgcoord.ErrConflict, v.op.Operation, errWithdrawn)
	case seen.rows == 0:
		return pgcoord.ErrNotFound
	case seen.rows > 1:
		return fmt.Errorf("%w: the key has %d rows, so none is moved; make it unique (see Verify)", pgcoord.ErrConflict, seen.rows)
	}
	e := &StateError{Key: v.key, Want: v.from, To: v.to, Null: seen.state == nil, Token: seen.token, WantToken: v.o.Token}
	if seen.state != nil {
		e.Now = State(*seen.state)
	}
	if v.o.NoWait && !locked && e.in() && !e.lost() {
		return &pgcoord.HeldError{Key: v.key}
	}
	return e
}

// onConn asks on a connection that is in no transaction, in READ COMMITTED: plainly
// where that is its default.
func onConn(conn *pgx.Conn, plain bool) asker {
	if plain {
		return onDB(conn)
	}
	return func(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
		batch := &pgx.Batch{}
		batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		batch.Queue(sql, args...).Query(scan)
		batch.Queue("commit")
		results := conn.SendBatch(ctx, batch)
		err := results.Close()
		if err != nil {
			_ = results.Tx().Rollback(ctx) // a failure of this closes the connection
		}
		return err
	}
}

// onDB asks wherever db is.
func onDB(db DB) asker {
	return func(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
		rows, err := db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		return scan(rows)
	}
}

// number returns a token, 0 for none.
func number(token *int64) int64 {
	if token == nil {
		return 0
	}
	return *token
}
