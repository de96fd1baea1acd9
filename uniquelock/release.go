package uniquelock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/gate"
	"github.com/pgcoord/pgcoord/internal/pgerr"
)

// Release implements pgcoord.Claim. A waiter of this process is handed the key in
// the same statement, else the first waiting process.
//
// After a failure it may be called again; the lease is not renewed any more, so
// the key is free at the end of its TTL in any case.
func (l *Lease) Release(ctx context.Context) error {
	s, err := l.gate.StartEnd(ctx)
	switch {
	case err != nil:
		l.letGo()
		return describe("release", l.key, err)
	case s == gate.Completed || s == gate.Released:
		return nil
	case s != gate.Open:
		return describe("release", l.key, l.gate.Ended())
	}
	err = l.c.end(ctx, l, false)
	return l.settle(ctx, "release", gate.Released, err)
}

// settle notes the result of a statement that ends the lease.
func (l *Lease) settle(ctx context.Context, op string, s gate.State, err error) error {
	if err == nil {
		l.gate.FinishEnd(s)
		return nil
	}
	l.gate.FinishEnd(gate.Open)
	if s == gate.Released || errors.Is(err, pgcoord.ErrOutcomeUnknown) && !pgerr.FromCaller(err) {
		l.letGo()
	}
	if errors.Is(err, errGone) && !errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		err = l.gate.Refuse(l.c.why(ctx, l))
	}
	return describe(op, l.key, err)
}

// letGo leaves a lease to end with its TTL: nobody may come back to end it. It may
// have ended in the database, so whoever waits here looks for himself from now on.
func (l *Lease) letGo() {
	l.adrift.Store(true)
	l.c.keeper.Remove(l)
	l.c.lines.WakeFirst(l.key)
}

// errGone reports that the exact claim is not current.
var errGone = errors.New("the claim is not current")

// end frees the key or hands it on, durably as completed if done.
func (c *Coordinator) end(ctx context.Context, l *Lease, done bool) error {
	if next := c.takeNext(l); next != nil {
		handed, err := c.handOver(ctx, l, next, done)
		if err != nil || handed {
			return err
		}
	}
	return c.endAlone(ctx, l, done)
}

// takeNext takes the first waiter of this process out of its line, unless it is
// another process's turn.
func (c *Coordinator) takeNext(l *Lease) *place {
	if l.othersWait && l.streak >= turns {
		return nil
	}
	return c.lines.Take(l.key)
}

func (c *Coordinator) handOver(ctx context.Context, l *Lease, to *place, done bool) (bool, error) {
	r := to.For
	sent := time.Now()
	var token int64
	var othersWait bool
	result, err := c.run.QueryRow(ctx, handOverSQL, []any{
		l.key, l.token, l.claimID, done, r.claimID, c.opts.Holder, c.hub.Channel(),
		r.terms.ttl.Microseconds(), r.terms.minHold.Microseconds(), r.terms.metadata,
	}, &token, &othersWait)
	if err != nil && result.Sent {
		token, err = c.wasHanded(ctx, l, r.claimID, err)
	}
	if err != nil {
		to.Return()
		if errors.Is(err, pgx.ErrNoRows) { // gone, locked by a late guard, or held for its minimum
			return false, nil
		}
		return false, err
	}
	lease := c.prepare(l.key, r.claimID, token, r.terms, sent)
	lease.streak, lease.othersWait = l.streak+1, othersWait
	lease.start()
	if !to.Deliver(delivery{lease: lease}) {
		c.abandon(lease) // its caller has gone: the next in line gets it from there
	}
	return true, nil
}

// wasHanded tells whether a hand-over without a reply happened: it returns the
// token, pgx.ErrNoRows where it did not, or an unknown outcome.
func (c *Coordinator) wasHanded(ctx context.Context, l *Lease, claimID string, cause error) (int64, error) {
	now, err := c.current(ctx, l.key)
	switch {
	case err != nil:
		return 0, unknownIf(true, errors.Join(cause, ctx.Err()))
	case now.held && now.claimID == claimID:
		return now.token, nil
	}
	return 0, pgx.ErrNoRows
}

// endAlone ends the claim where nobody of this process is next.
func (c *Coordinator) endAlone(ctx context.Context, l *Lease, done bool) error {
	sql := releaseSQL
	if done {
		sql = completeFreeSQL
	}
	rows, result, err := c.run.Exec(ctx, sql, l.key, l.token, l.claimID)
	if err != nil || rows == 1 {
		return unknownIf(result.Sent, err)
	}
	sent := result.Sent
	var outcome string
	result, err = c.run.QueryRow(ctx, passSQL,
		[]any{l.key, l.token, l.claimID, c.firstLease().Microseconds(), done}, &outcome)
	sent = sent || result.Sent
	if pgerr.Code(err) == pgerr.Gone || err == nil && outcome == "gone" {
		return c.endedBefore(ctx, l, done, sent)
	}
	return unknownIf(sent, err)
}

// endedBefore tells a claim that an earlier send of the same statement has ended
// from one that was lost.
func (c *Coordinator) endedBefore(ctx context.Context, l *Lease, done, sent bool) error {
	now, err := c.current(ctx, l.key)
	switch {
	case err != nil:
		return unknownIf(sent, err)
	case now.token == l.token && now.claimID == l.claimID && !now.held && (!done || now.doneToken == l.token):
		return nil // only the holder leaves that behind
	case done && now.doneToken == l.token:
		return nil // and the key was handed on
	case sent && (!done || now.doneToken > l.token):
		return unknownIf(true, errGone)
	}
	return errGone
}

// unknownIf says of the failure of a statement that may have been carried out
// that its outcome is unknown.
func unknownIf(sent bool, err error) error {
	if err == nil || !sent {
		return err
	}
	return fmt.Errorf("%w: %w", pgcoord.ErrOutcomeUnknown, err)
}
