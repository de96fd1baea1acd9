package statemachine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/gate"
	"github.com/pgcoord/pgcoord/internal/guard"
	"github.com/pgcoord/pgcoord/internal/limits"
	"github.com/pgcoord/pgcoord/internal/pace"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// settleLimit is how long it is asked what became of a commit whose reply was lost,
// before that is said to be unknown.
const settleLimit = 2 * time.Second

const (
	maxResult = 1 << 20 // bytes of JSON
	maxError  = 4096    // bytes
)

// errNoWayBack reports that the machine has no edge from Working to Ready.
var errNoWayBack = fmt.Errorf("%w: no edge back to Ready is declared", pgcoord.ErrConflict)

// ending is how an attempt ends.
type ending struct {
	to      State
	outcome string
	result  *string // JSON
	err     *string
	rest    time.Duration // in Ready, before the next attempt
}

// Complete implements pgcoord.Claim: it moves the row to Done. Where the reply to
// its commit is lost it asks what became of it, and says pgcoord.ErrOutcomeUnknown
// only when that cannot be told.
func (a *Attempt) Complete(ctx context.Context, fn func(pgx.Tx) error) error {
	return a.end(ctx, "complete", gate.Completed, ending{to: a.c.step.Done, outcome: "done"}, fn)
}

// CompleteWith is Complete, and stores result as JSON with the attempt. It fails
// when that has more than 1 MiB.
func (a *Attempt) CompleteWith(ctx context.Context, result any, fn func(pgx.Tx) error) error {
	text, err := json.Marshal(result)
	if err == nil && len(text) > maxResult {
		err = fmt.Errorf("the result has %d bytes as JSON, at most %d are allowed", len(text), maxResult)
	}
	if err != nil {
		return describe("complete", a.key, err)
	}
	stored := string(text)
	return a.end(ctx, "complete", gate.Completed, ending{to: a.c.step.Done, outcome: "done", result: &stored}, fn)
}

// FailOptions are the options of one Fail. The zero value goes by the Step.
type FailOptions struct {
	// Final moves the row to Failed even if attempts are left.
	Final bool
	// After is how long the row rests in Ready, at most 24 h. Default: the backoff of
	// the Step.
	After time.Duration
	// Record runs in the same transaction, for what must be stored of the failure.
	Record func(pgx.Tx) error
}

// Fail ends the attempt as failed, with cause stored beside it: the row goes back
// to Ready after its backoff, or to Failed when its attempts are used up, or where
// there is no edge back.
//
// It fails with pgcoord.ErrLost when the claim is not current, and with
// pgcoord.ErrConflict when the row can go nowhere. After a definite failure the
// attempt stands as before.
func (a *Attempt) Fail(ctx context.Context, cause error, o FailOptions) error {
	step := a.c.step
	if err := limits.Duration("FailOptions.After", o.After, 0); err != nil {
		return describe("fail", a.key, err)
	}
	e := ending{to: step.Ready, outcome: "retry", rest: o.After}
	if e.rest == 0 {
		e.rest = step.backoff(a.number)
	}
	usedUp := step.MaxAttempts > 0 && a.number >= step.MaxAttempts
	if back := a.c.m.Allows(step.Working, step.Ready); o.Final || usedUp || !back {
		e = ending{to: step.Failed, outcome: "failed"}
	}
	if e.to == "" {
		return describe("fail", a.key, fmt.Errorf("%w: the step has no Failed state", pgcoord.ErrConflict))
	}
	if cause != nil {
		text := storable(cause.Error())
		e.err = &text
	}
	return a.end(ctx, "fail", gate.Released, e, o.Record)
}

// Release implements pgcoord.Claim: it moves the row back to Ready. It fails with
// pgcoord.ErrConflict where the machine has no such edge.
func (a *Attempt) Release(ctx context.Context) error {
	if !a.c.m.Allows(a.c.step.Working, a.c.step.Ready) {
		return describe("release", a.key, errNoWayBack)
	}
	err := a.end(ctx, "release", gate.Released, ending{to: a.c.step.Ready, outcome: "released"}, nil)
	if errors.Is(err, errEndedBefore) {
		return nil
	}
	return err
}

// errEndedBefore reports that the holder has ended the attempt before.
var errEndedBefore = errors.New("the attempt was ended before")

func (a *Attempt) end(ctx context.Context, op string, as gate.State, e ending, fn func(pgx.Tx) error) error {
	s, err := a.gate.StartEnd(ctx)
	switch {
	case err != nil:
		return describe(op, a.key, err)
	case s == gate.Completed && as == gate.Completed:
		return describe(op, a.key, fmt.Errorf("%w: the claim was completed before", pgcoord.ErrDone))
	case s == gate.Completed || s == gate.Released && as == gate.Released:
		return describe(op, a.key, errEndedBefore)
	case s != gate.Open:
		return describe(op, a.key, a.gate.Ended())
	}
	// Deferred, so that a panic and runtime.Goexit in fn leave the attempt usable.
	settled := false
	defer func() {
		if !settled {
			a.gate.FinishEnd(gate.Open)
		}
	}()
	err = a.endOnce(ctx, e, fn)
	settled = true
	if err == nil {
		a.gate.FinishEnd(as)
		return nil
	}
	a.gate.FinishEnd(gate.Open)
	if as == gate.Released || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		a.c.keeper.Remove(a) // nobody may come back to end it: it ends with its lease
	}
	return describe(op, a.key, err)
}

func (a *Attempt) endOnce(ctx context.Context, e ending, fn func(pgx.Tx) error) error {
	_, named := pgcoord.Operation(ctx)
	if fn != nil || named {
		q, _, err := a.c.prepared(ctx)
		if err != nil {
			return err
		}
		finish := guard.Statement{SQL: requireEnd(q.end), Args: a.endArgs(e)}
		err = a.guarded(ctx, []guard.Statement{finish}, fn)
		if errors.Is(err, pgcoord.ErrOutcomeUnknown) {
			err = a.settleCommit(ctx, e, err)
		}
		return err
	}
	var pause pace.Backoff
	limit := time.Now().Add(guard.LockedLimit)
	for {
		ended, err := a.sendEnd(ctx, e)
		if err != nil || ended {
			return err
		}
		lost, err := a.look(ctx) // it makes an attempt current that the reaper gave up
		switch {
		case err != nil:
			return err
		case lost != nil:
			return a.gate.Refuse(lost)
		case time.Now().After(limit):
			return guard.ErrLocked
		}
		if err := statement.Sleep(ctx, pause.Next()); err != nil {
			return err
		}
	}
}

// requireEnd makes a transaction fail that did not end its attempt.
func requireEnd(sql string) string {
	const answer = "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM w)"
	return sql[:len(sql)-len(answer)] + "SELECT pgcoord.require_one((SELECT count(*) FROM a)), (SELECT count(*) FROM w)"
}

func (a *Attempt) endArgs(e ending) []any {
	wake := 1
	if e.to != a.c.step.Ready {
		wake = 1 << 20 // nothing is left to get: all shall know
	}
	return a.args(string(a.c.step.Working), string(e.to), e.outcome, e.result, e.err, e.rest.Microseconds(), wake, e.to == a.c.step.Ready)
}

// sendEnd sends the single statement that ends the attempt, and reports whether it
// did, by this or an earlier send.
func (a *Attempt) sendEnd(ctx context.Context, e ending) (bool, error) {
	q, _, err := a.c.prepared(ctx)
	if err != nil {
		return false, err
	}
	var ended, woken int64
	result, err := a.c.run.QueryRow(ctx, q.end, a.endArgs(e), &ended, &woken)
	if err == nil && ended == 0 && result.Sent {
		s, err := a.verdict(ctx)
		return s.outcome == e.outcome, unknownIf(err)
	}
	if result.Sent {
		err = unknownIf(err)
	}
	return ended == 1, err
}

// settleCommit asks what became of a commit whose reply was lost. The record of the
// attempt tells it for good, once no transaction of it is open.
func (a *Attempt) settleCommit(parent context.Context, e ending, unknown error) error {
	ctx, cancel := statement.Outlive(parent, statement.Grace, settleLimit)
	defer cancel()
	q, _, err := a.c.prepared(parent)
	if err != nil {
		return unknown
	}
	for {
		var outcome string
		_, err := a.c.run.QueryRow(ctx, q.settled, a.args(), &outcome)
		switch {
		case err == nil && outcome == e.outcome:
			return nil
		case err == nil && outcome == "open":
			return fmt.Errorf("the connection broke and nothing was committed (%w)", lostReply{unknown})
		case err == nil:
			return a.gate.Refuse(fmt.Errorf("the attempt ended as %s", outcome))
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

func unknownIf(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", pgcoord.ErrOutcomeUnknown, err)
}

// storable makes text fit for the error column: valid, without NUL, not too long.
func storable(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	return text
}
