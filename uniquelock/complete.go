package uniquelock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/gate"
	"github.com/pgcoord/pgcoord/internal/guard"
	"github.com/pgcoord/pgcoord/internal/pace"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// settleLimit is how long Complete asks what became of a commit whose reply was
// lost, before it says that this is unknown.
const settleLimit = 2 * time.Second

// Complete implements pgcoord.Claim. It frees the key, or with Options.Once leaves
// a done mark. Where the reply to its commit is lost it asks the row what became
// of it, and says pgcoord.ErrOutcomeUnknown only when that cannot be told; the
// lease is not renewed any more then.
func (l *Lease) Complete(ctx context.Context, fn func(pgx.Tx) error) error {
	s, err := l.gate.StartEnd(ctx)
	switch {
	case err != nil:
		return describe("complete", l.key, err)
	case s == gate.Completed:
		return describe("complete", l.key, fmt.Errorf("%w: the claim was completed before", pgcoord.ErrDone))
	case s != gate.Open:
		return describe("complete", l.key, l.gate.Ended())
	}
	// Deferred, so that a panic and runtime.Goexit in fn leave the lease usable.
	settled := false
	defer func() {
		if !settled {
			l.gate.FinishEnd(gate.Open)
		}
	}()
	err = l.complete(ctx, fn)
	settled = true
	return l.settle(ctx, "complete", gate.Completed, err)
}

func (l *Lease) complete(ctx context.Context, fn func(pgx.Tx) error) error {
	_, named := pgcoord.Operation(ctx)
	if fn == nil && !named && !l.c.opts.Once {
		return l.c.end(ctx, l, true)
	}
	spec, err := l.spec(ctx)
	if err != nil {
		return err
	}
	spec.Before = &guard.Statement{SQL: completionTurnSQL, Args: []any{l.key, l.token}}
	spec.Finish = []guard.Statement{{SQL: completeSQL, Args: []any{l.key, l.token, l.claimID, l.c.opts.Once}}}
	err = l.guarded(ctx, spec, fn)
	if errors.Is(err, pgcoord.ErrOutcomeUnknown) && !pgerr.FromCaller(err) {
		err = l.settleCommit(ctx, err)
	}
	if err == nil && l.c.opts.Once {
		l.c.tellDone(l.key)
	}
	return err
}

// settleCommit asks what became of a commit whose reply was lost.
func (l *Lease) settleCommit(parent context.Context, unknown error) error {
	ctx, cancel := statement.Outlive(parent, statement.Grace, settleLimit)
	defer cancel()
	for {
		var now current
		_, err := l.c.run.QueryRow(ctx, settledSQL, []any{l.key}, now.dest()...)
		switch {
		case err == nil && now.doneToken == l.token:
			return nil
		case err == nil && now.is(l):
			return fmt.Errorf("the connection broke and nothing was committed (%w)", lostReply{unknown})
		case err == nil && now.doneToken < l.token && now.token > l.token:
			return errGone
		case err == nil:
			return unknown
		case !errors.Is(err, pgx.ErrNoRows) && !pgerr.Transient(err):
			return unknown
		}
		if statement.Sleep(ctx, pace.Poll) != nil { // no row while the transaction is open
			return unknown
		}
	}
}

// lostReply keeps the text of an error and takes its kind: what it says to be
// unknown is known by now.
type lostReply struct{ error }

// tellDone gives all waiters of this process the answer that one of them would
// find.
func (c *Coordinator) tellDone(key string) {
	for {
		next := c.lines.Take(key)
		if next == nil {
			return
		}
		next.Deliver(delivery{err: pgcoord.ErrDone})
	}
}
