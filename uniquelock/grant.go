package uniquelock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/keys"
	"github.com/pgcoord/pgcoord/internal/pace"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// giveBackLimit bounds the clean-up of a grant whose caller has gone; what it
// does not reach ends with the lease.
const giveBackLimit = 5 * time.Second

// request is one call for a claim. Its claim id stays the same however often it
// is sent, so that it recognises its own grant.
type request struct {
	key, claimID string
	terms        terms
	kept         bool // the caller named the claim id and may come back for it
}

func (c *Coordinator) newRequest(ctx context.Context, key string, lo LockOptions) (*request, error) {
	if err := keys.Check(key); err != nil {
		return nil, err
	}
	terms, err := c.opts.terms(lo)
	if err != nil {
		return nil, err
	}
	r := &request{key: key, claimID: rand.Text(), terms: terms}
	if id, ok := pgcoord.GrantID(ctx); ok {
		if err := keys.CheckID("grant id", id); err != nil {
			return nil, err
		}
		// The prefix keeps callers' ids apart from those made here.
		r.claimID, r.kept = "id:"+id, true
	}
	return r, nil
}

// sight is what a try that got nothing saw.
type sight struct {
	state        string // granted, done, free (but locked by somebody), held
	token        int64
	claimID      string
	holder       string
	since, until *time.Time
	remaining    int64 // microseconds
}

func (s *sight) dest() []any {
	return []any{&s.state, &s.token, &s.claimID, &s.holder, &s.since, &s.until, &s.remaining}
}

// protected returns how long nobody else may take the key.
func (s *sight) protected() time.Duration { return time.Duration(s.remaining) * time.Microsecond }

func (s *sight) heldError(key string) *pgcoord.HeldError {
	e := &pgcoord.HeldError{Key: key}
	if s.state == "held" {
		e.Holder, e.Token = s.holder, s.token
		if s.since != nil {
			e.Since = *s.since
		}
		if s.until != nil {
			e.Until = *s.until
		}
	}
	return e
}

// TryLock claims key at once and never waits for another holder.
//
// It fails with pgcoord.ErrHeld (as a *pgcoord.HeldError), pgcoord.ErrDone,
// pgcoord.ErrInvalidKey, an error that names the field of lo that is out of its
// range, or one that tells what the database lacks. A failed call leaves no claim
// behind; one that was cut off on its way frees what it may have won, at the end
// of the TTL at the latest.
func (c *Coordinator) TryLock(ctx context.Context, key string, lo LockOptions) (*Lease, error) {
	if err := c.calls.Enter(); err != nil {
		return nil, describe("try to lock", key, err)
	}
	defer c.calls.Leave()
	r, err := c.newRequest(ctx, key, lo)
	if err != nil {
		return nil, describe("try to lock", key, err)
	}
	lease, seen, err := c.try(ctx, r)
	if err == nil && lease == nil {
		err = seen.refusal(r.key)
	}
	if err != nil {
		return nil, describe("try to lock", key, err)
	}
	return lease, nil
}

// refusal turns what was seen into the answer of a try.
func (s *sight) refusal(key string) error {
	if s.state == "done" {
		return pgcoord.ErrDone
	}
	return s.heldError(key)
}

// try asks for the key once. It returns a lease, or what stood in the way.
func (c *Coordinator) try(ctx context.Context, r *request) (*Lease, *sight, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if err := c.ground.check(ctx, c); err != nil {
		return nil, nil, err
	}
	sent, seen, err := c.grant(ctx, r)
	if errors.Is(err, pgx.ErrNoRows) {
		if err := c.seed(ctx, r.key); err != nil {
			return nil, nil, err
		}
		sent, seen, err = c.grant(ctx, r)
		if errors.Is(err, pgx.ErrNoRows) { // inserted by a stranger who has not committed
			return nil, &sight{state: "free"}, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if seen.state == "granted" {
		return c.granted(ctx, r, seen.token, sent)
	}
	if seen.claimID == r.claimID {
		return c.adopt(ctx, r, r.claimID)
	}
	return nil, seen, nil
}

// granted makes a lease of a grant, unless the caller has gone meanwhile.
func (c *Coordinator) granted(ctx context.Context, r *request, token int64, sent time.Time) (*Lease, *sight, error) {
	if err := ctx.Err(); err != nil && !r.kept {
		c.giveBack(r.key, r.claimID)
		return nil, nil, err
	}
	return c.newLease(r.key, r.claimID, token, r.terms, sent), nil, nil
}

// grant sends the granting statement. It fails with pgx.ErrNoRows when the key
// has no row yet.
func (c *Coordinator) grant(ctx context.Context, r *request) (time.Time, *sight, error) {
	sent := time.Now()
	seen := &sight{}
	result, err := c.run.QueryRow(ctx, grantSQL, []any{
		r.key, r.claimID, c.opts.Holder, c.hub.Channel(), r.terms.ttl.Microseconds(),
		r.terms.minHold.Microseconds(), r.terms.metadata,
	}, seen.dest()...)
	return sent, seen, c.halfWon(r, result, err)
}

// adopt takes over a grant that was made to this process under the id from. It
// returns a sight instead of a lease when it is not there any more.
func (c *Coordinator) adopt(ctx context.Context, r *request, from string) (*Lease, *sight, error) {
	var pause pace.Backoff
	for {
		sent := time.Now()
		var token int64
		result, err := c.run.QueryRow(ctx, adoptSQL, []any{
			r.key, from, r.claimID, c.opts.Holder, c.hub.Channel(), r.terms.ttl.Microseconds(),
			r.terms.minHold.Microseconds(), r.terms.metadata,
		}, &token)
		if err == nil {
			return c.granted(ctx, r, token, sent)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, nil, c.halfWon(r, result, err)
		}
		now, err := c.current(ctx, r.key)
		switch {
		case err != nil:
			return nil, nil, err
		case !now.held || now.claimID != from && now.claimID != r.claimID:
			return nil, &sight{state: "free"}, nil
		case now.claimID == r.claimID:
			from = r.claimID // an earlier send has renamed it
		}
		if err := statement.Sleep(ctx, pause.Next()); err != nil { // locked for a moment
			return nil, nil, err
		}
	}
}

// halfWon sees to a grant that may have happened without its reply.
func (c *Coordinator) halfWon(r *request, result statement.Result, err error) error {
	if err == nil || !result.Sent || errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if !r.kept {
		c.giveBack(r.key, r.claimID)
		r.claimID = rand.Text() // a later try must not be given back too
	}
	return fmt.Errorf("%w: the key may be taken until the end of its TTL: %w", pgcoord.ErrOutcomeUnknown, err)
}

// giveBack releases in the background what was granted under claimID.
func (c *Coordinator) giveBack(key, claimID string) {
	c.calls.Background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackLimit)
		defer cancel()
		var outcome string
		_, err := c.run.QueryRow(ctx, giveBackSQL, []any{key, claimID, c.firstLease().Microseconds()}, &outcome)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			c.opts.Logger.Debug("uniquelock: a grant was not given back and ends with its lease", "key", key, "error", err)
		}
		c.lines.WakeFirst(key)
	})
}

// seed makes the row of a new key.
func (c *Coordinator) seed(ctx context.Context, key string) error {
	_, _, err := c.run.Exec(ctx, seedSQL, key)
	if pgerr.Code(err) == "55P03" { // a stranger inserts the same key
		return nil
	}
	return err
}

func describe(op, key string, err error) error {
	return pgerr.Describe("uniquelock: "+op, key, err)
}
