package statemachine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/keys"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// giveBackLimit bounds the clean-up of a claim whose caller has gone; what it does
// not reach ends with the lease.
const giveBackLimit = 5 * time.Second

// TryAcquire implements pgcoord.Coordinator.
func (c *Coordinator) TryAcquire(ctx context.Context, key string) (pgcoord.Claim, error) {
	a, err := c.TryClaim(ctx, key)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// TryClaim claims the row of key at once: it moves it from Ready to Working.
//
// It fails with pgcoord.ErrHeld while another attempt is under way or the row rests
// after a failure, pgcoord.ErrDone when the row is Done, pgcoord.ErrNotFound when
// there is none, and pgcoord.ErrConflict when it is in any other state. A row whose
// attempt's lease is over is taken back first.
//
// A failed call leaves the row as it was.
func (c *Coordinator) TryClaim(ctx context.Context, key string) (*Attempt, error) {
	a, err := c.tryClaim(ctx, key)
	if err != nil {
		return nil, describe("try to claim", key, err)
	}
	return a, nil
}

func (c *Coordinator) tryClaim(ctx context.Context, key string) (*Attempt, error) {
	if err := c.calls.Enter(); err != nil {
		return nil, err
	}
	defer c.calls.Leave()
	r, err := c.newRequest(ctx, key)
	if err != nil {
		return nil, err
	}
	a, seen, err := c.try(ctx, r)
	if err != nil || a != nil {
		return a, err
	}
	return nil, c.refusal(r, seen)
}

// request is one call for a claim. Its claim id stays the same however often it is
// sent, so that it recognises its own grant.
type request struct {
	key, claimID string
	q            *queries
	parts        []any
	kept         bool // the caller named the claim id and may come back for it
}

func (c *Coordinator) newRequest(ctx context.Context, key string) (*request, error) {
	if err := keys.Check(key); err != nil {
		return nil, err
	}
	q, parts, err := c.ready(ctx, key)
	if err != nil {
		return nil, err
	}
	r := &request{key: key, claimID: rand.Text(), q: q, parts: parts}
	if id, ok := pgcoord.GrantID(ctx); ok {
		if err := keys.CheckID("grant id", id); err != nil {
			return nil, err
		}
		// The prefix keeps callers' ids apart from those made here.
		r.claimID, r.kept = "id:"+id, true
	}
	return r, nil
}

// sight is what a try that got nothing saw: the row's state and the attempt of its
// token.
type sight struct {
	state        State // "" is a grant
	token        int64
	attempt      int
	claimID      string
	holder       string
	since, until *time.Time
	remaining    int64  // of its lease, or of its rest, in microseconds
	outcome      string // open, none, or as in pgcoord.attempts
}

func (s *sight) dest() []any {
	return []any{(*string)(&s.state), &s.token, &s.attempt, &s.claimID, &s.holder, &s.since, &s.until, &s.remaining, &s.outcome}
}

// over reports whether the attempt under way has outlived its lease.
func (s *sight) over(step Step) bool {
	return s.state == step.Working && s.outcome == "open" && s.remaining <= 0
}

// protected returns how long nobody can claim the row.
func (s *sight) protected() time.Duration {
	return max(0, time.Duration(s.remaining)*time.Microsecond)
}

// refusal turns what was seen into the answer of a try.
func (c *Coordinator) refusal(r *request, seen *sight) error {
	switch seen.state {
	case c.step.Done:
		return pgcoord.ErrDone
	case c.step.Ready, c.step.Working:
	default:
		return fmt.Errorf("%w: the row is %q, it can be claimed when it is %q", pgcoord.ErrConflict, seen.state, c.step.Ready)
	}
	held := &pgcoord.HeldError{Key: r.key}
	if seen.state == c.step.Working {
		held.Holder, held.Token = seen.holder, seen.token
		if seen.since != nil {
			held.Since = *seen.since
		}
		if seen.until != nil {
			held.Until = *seen.until
		}
	}
	return held
}

// try asks for the row once, after taking it back from an attempt whose lease is
// over. It returns an attempt, or what stood in the way.
func (c *Coordinator) try(ctx context.Context, r *request) (*Attempt, *sight, error) {
	for again := false; ; again = true {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		sent := time.Now()
		seen := &sight{}
		args := append([]any{
			c.m.name, r.key, r.claimID, c.step.TTL.Microseconds(), string(c.step.Ready), string(c.step.Working),
			c.opts.Holder, c.hub.Channel(),
		}, r.parts...)
		result, err := c.run.QueryRow(ctx, r.q.claim, args, seen.dest()...)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil, nil, pgcoord.ErrNotFound
		case err != nil:
			return nil, nil, c.halfWon(r, result, err)
		case seen.state == "":
			return c.granted(ctx, r, seen.token, seen.attempt, sent)
		case seen.claimID == r.claimID && seen.outcome == "open":
			return c.adopt(ctx, r)
		case !seen.over(c.step) || again:
			return nil, seen, nil
		}
		if _, err := c.reap(ctx, r.q, 1, &r.key, nil); err != nil {
			return nil, nil, err
		}
	}
}

// granted makes an attempt of a grant, unless the caller has gone meanwhile.
func (c *Coordinator) granted(ctx context.Context, r *request, token int64, number int, sent time.Time) (*Attempt, *sight, error) {
	if err := ctx.Err(); err != nil && !r.kept {
		c.giveBack(r)
		return nil, nil, err
	}
	return c.newAttempt(r.key, r.parts, r.claimID, token, number, sent), nil, nil
}

// adopt takes over a grant of an earlier send of the same request.
func (c *Coordinator) adopt(ctx context.Context, r *request) (*Attempt, *sight, error) {
	sent := time.Now()
	var token int64
	var number int
	result, err := c.run.QueryRow(ctx, r.q.adopt, []any{
		c.m.name, r.key, r.claimID, c.step.TTL.Microseconds(), c.opts.Holder, c.hub.Channel(),
	}, &token, &number)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // it ended meanwhile
		return nil, &sight{state: c.step.Ready}, nil
	case err != nil:
		return nil, nil, c.halfWon(r, result, err)
	}
	return c.granted(ctx, r, token, number, sent)
}

// halfWon sees to a grant that may have happened without its reply.
func (c *Coordinator) halfWon(r *request, result statement.Result, err error) error {
	if !result.Sent {
		return err
	}
	if !r.kept {
		c.giveBack(r)
		r.claimID = rand.Text() // a later try must not be given back too
	}
	return fmt.Errorf("%w: the row may be claimed until the end of its TTL: %w", pgcoord.ErrOutcomeUnknown, err)
}

// giveBack releases in the background what was granted under r's claim id. Where
// the machine has no way back to Ready, it ends with the lease.
func (c *Coordinator) giveBack(r *request) {
	claimID := r.claimID
	if !c.m.Allows(c.step.Working, c.step.Ready) {
		return
	}
	c.calls.Background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackLimit)
		defer cancel()
		var token int64
		_, err := c.run.QueryRow(ctx, grantedSQL, []any{c.m.name, r.key, claimID}, &token)
		if err == nil {
			a := &Attempt{c: c, key: r.key, parts: r.parts, token: token, claimID: claimID}
			_, err = a.sendEnd(ctx, ending{to: c.step.Ready, outcome: "released"})
		}
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			c.opts.Logger.Debug("statemachine: a claim was not given back and ends with its lease", "key", r.key, "error", err)
		}
		c.lines.WakeFirst(r.key)
	})
}
