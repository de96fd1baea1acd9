package statemachine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/gate"
	"github.com/pgcoord/pgcoord/internal/guard"
	"github.com/pgcoord/pgcoord/internal/operation"
)

// Attempt is a claim on a row: one attempt to bring it from Working to Done. It is
// renewed in the background until it is completed, failed, released or lost. It
// implements pgcoord.Claim.
type Attempt struct {
	c       *Coordinator
	key     string
	parts   []any
	token   int64
	number  int
	claimID string
	gate    *gate.Gate
	turn    chan struct{} // holds one: whoever runs the guarded transaction
}

// newAttempt starts the life of a claim that was granted by a statement sent at
// sent.
func (c *Coordinator) newAttempt(key string, parts []any, claimID string, token int64, number int, sent time.Time) *Attempt {
	a := &Attempt{
		c: c, key: key, parts: parts, token: token, number: number, claimID: claimID,
		turn: make(chan struct{}, 1),
	}
	a.gate = gate.New(c.step.TTL, sent, func() { c.forget(a) })
	a.gate.Start()
	c.hold(a)
	c.hub.Start()
	return a
}

// hold makes a known to the process and keeps it alive from now on.
func (c *Coordinator) hold(a *Attempt) {
	c.mu.Lock()
	if c.held[a.key] == nil {
		c.held[a.key] = map[*Attempt]struct{}{}
	}
	c.held[a.key][a] = struct{}{}
	c.mu.Unlock()
	c.keeper.Add(a)
}

// Key implements pgcoord.Claim.
func (a *Attempt) Key() string { return a.key }

// Token implements pgcoord.Claim. It stands in the row's token column as well.
func (a *Attempt) Token() int64 { return a.token }

// Number returns which attempt on the row this is, from 1.
func (a *Attempt) Number() int { return a.number }

// Lost implements pgcoord.Claim. It closes once: when the database says that the
// claim is not current or was taken back by the reaper, when the lease ran out on
// this process's clock without a renewal, or when Close released it.
func (a *Attempt) Lost() <-chan struct{} { return a.gate.Lost() }

// Remaining returns how long the lease lasts at least, by this process's
// monotonic clock and without asking anybody; 0 once it has run out or ended.
func (a *Attempt) Remaining() time.Duration { return a.gate.Remaining() }

// BeginFunc implements pgcoord.Claim. BEGIN and the guard are one round trip, the
// last check and COMMIT another. The guard locks the row as an UPDATE does, so
// guarded transactions of one attempt run one after the other.
//
// fn must not complete, fail or release the attempt, because that waits for fn.
func (a *Attempt) BeginFunc(ctx context.Context, fn func(pgx.Tx) error) error {
	if err := a.gate.Enter(); err != nil {
		return describe("begin under", a.key, err)
	}
	defer a.gate.Leave()
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return describe("begin under", a.key, ctx.Err())
	}
	return describe("guarded transaction of", a.key, a.guarded(ctx, nil, fn))
}

// guarded runs fn in a transaction guarded by the attempt, with finish before its
// commit.
func (a *Attempt) guarded(ctx context.Context, finish []guard.Statement, fn func(pgx.Tx) error) error {
	q, _, err := a.c.prepared(ctx)
	if err != nil {
		return err
	}
	idle := strconv.FormatInt(a.c.step.IdleLimit.Milliseconds(), 10)
	spec := guard.Spec{
		Lock:   guard.Statement{SQL: q.guard, Args: a.args(idle, string(a.c.step.Working))},
		Token:  a.token,
		Finish: finish,
	}
	id, named, err := operation.From(ctx, a.c.domain(), a.key)
	if err != nil {
		return err
	}
	if named {
		spec.Operation = &id
	}
	return guard.Under(ctx, a.c.pool, a.gate, a.look, spec, fn)
}

// args returns the parameters that begin every statement of an attempt, then more,
// then the parts of the key.
func (a *Attempt) args(more ...any) []any {
	args := append([]any{a.c.m.name, a.key, a.token, a.claimID}, more...)
	return append(args, a.parts...)
}

// Guard locks the claim within a transaction of the caller, which then commits
// only while the claim is current. In a transaction of level REPEATABLE READ or
// SERIALIZABLE it must be the first statement.
//
// It fails with pgcoord.ErrLost when the claim is not current, and with
// pgcoord.ErrConflict when the transaction is older than a change of the row, or
// somebody else has the row locked. The caller must roll back then.
func (a *Attempt) Guard(ctx context.Context, tx pgx.Tx) error {
	if err := a.gate.Ended(); err != nil {
		return describe("guard", a.key, err)
	}
	q, _, err := a.c.prepared(ctx)
	if err != nil {
		return describe("guard", a.key, err)
	}
	var token int64
	err = tx.QueryRow(ctx, q.guardIn, a.args(string(a.c.step.Working))...).Scan(&token)
	if errors.Is(err, pgx.ErrNoRows) {
		lost, lookErr := a.look(ctx) // not in tx, which may be old
		switch {
		case lookErr != nil:
			err = lookErr
		case lost != nil:
			err = a.gate.Refuse(lost)
		default:
			err = guard.ErrLocked
		}
	}
	return describe("guard", a.key, err)
}

// verdict is what the database says of an attempt.
type verdict struct {
	state   State
	token   int64
	holder  string
	outcome string // of the attempt: open, none, or as in pgcoord.attempts
}

func (a *Attempt) verdict(ctx context.Context) (s verdict, err error) {
	q, _, err := a.c.prepared(ctx)
	if err != nil {
		return s, err
	}
	_, err = a.c.run.QueryRow(ctx, q.look, a.args(), (*string)(&s.state), &s.token, &s.holder, &s.outcome)
	return s, err
}

// current reports whether the attempt may still write.
func (s verdict) current(a *Attempt) bool {
	return s.state == a.c.step.Working && s.token == a.token && s.outcome == "open"
}

// look tells what became of the attempt: nil while it is current. One that the
// reaper has taken back while nobody claimed the row again is made current, unless
// the step says otherwise.
func (a *Attempt) look(ctx context.Context) (lost, err error) {
	s, err := a.verdict(ctx)
	if err != nil || s.current(a) {
		return nil, err
	}
	if s.state == a.c.step.Ready && s.token == a.token && s.outcome == "lease expired" && !a.c.step.NoAdoption {
		adopted, err := a.readopt(ctx)
		if err != nil || adopted {
			return nil, err
		}
		if s, err = a.verdict(ctx); err != nil || s.current(a) {
			return nil, err
		}
	}
	return s.lossOf(a), nil
}

// lossOf tells in words what became of the attempt.
func (s verdict) lossOf(a *Attempt) error {
	switch {
	case s.token == 0:
		return errors.New("the row is gone")
	case s.token != a.token:
		return fmt.Errorf("token %d of %q came after token %d; the row is %q now", s.token, s.holder, a.token, s.state)
	case s.outcome == "lease expired":
		return fmt.Errorf("its lease ended and the row was taken back; it is %q now", s.state)
	case s.outcome == "none":
		return errors.New("its record is gone")
	}
	return fmt.Errorf("the row is %q now; the attempt is %s", s.state, s.outcome)
}

// readopt brings the row back to an attempt that the reaper had given up.
func (a *Attempt) readopt(ctx context.Context) (bool, error) {
	q, _, err := a.c.prepared(ctx)
	if err != nil {
		return false, err
	}
	sent := time.Now()
	rows, _, err := a.c.run.Exec(ctx, q.readopt, a.args(string(a.c.step.Ready), string(a.c.step.Working), a.c.step.TTL.Microseconds())...)
	if err != nil || rows != 1 {
		return false, err
	}
	a.gate.Renewed(sent)
	a.c.hold(a)
	return true, nil
}

// forget takes a out of the living attempts of the process and stops its renewal.
func (c *Coordinator) forget(a *Attempt) {
	c.keeper.Remove(a)
	c.mu.Lock()
	delete(c.held[a.key], a)
	if len(c.held[a.key]) == 0 {
		delete(c.held, a.key)
	}
	c.mu.Unlock()
	c.lines.WakeFirst(a.key)
}

// holds reports whether an attempt of this process is alive on key.
func (c *Coordinator) holds(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held[key]) > 0
}
