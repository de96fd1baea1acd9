package statemachine

import (
	"context"
	"errors"
	"time"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/line"
	"github.com/pgcoord/pgcoord/internal/pace"
	"github.com/pgcoord/pgcoord/internal/pgerr"
)

// waiterLife is how long a request to be told lives without a look.
const waiterLife = 10 * time.Second

// Acquire implements pgcoord.Coordinator.
func (c *Coordinator) Acquire(ctx context.Context, key string) (pgcoord.Claim, error) {
	a, err := c.Claim(ctx, key)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Claim waits until the row of key is Ready and claims it. It fails as TryClaim
// does, except that it waits where that says pgcoord.ErrHeld: until ctx ends.
//
// Callers of one process are served first come, first served, by one of them
// looking for all.
func (c *Coordinator) Claim(ctx context.Context, key string) (*Attempt, error) {
	a, err := c.claim(ctx, key)
	if err != nil {
		return nil, describe("claim", key, err)
	}
	return a, nil
}

func (c *Coordinator) claim(ctx context.Context, key string) (*Attempt, error) {
	if err := c.calls.Enter(); err != nil {
		return nil, err
	}
	defer c.calls.Leave()
	r, err := c.newRequest(ctx, key)
	if err != nil {
		return nil, err
	}
	w := &waiter{c: c, r: r}
	if c.lines.Len(key) == 0 {
		a, next, err := w.look(ctx)
		if a != nil || err != nil {
			return a, err
		}
		w.wait = next
	}
	c.hub.Start()
	a, err := w.inLine(ctx)
	return a, err
}

// waiter is a caller that waits for a row, or with an empty key for work.
type waiter struct {
	c      *Coordinator
	r      *request
	place  *line.Place[*request, *Attempt]
	wait   time.Duration // before the first look
	looked bool          // the database has answered once
	asked  bool          // to be told
	pause  pace.Backoff
}

// inLine stands in line and looks whenever it is this one's turn.
func (w *waiter) inLine(ctx context.Context) (*Attempt, error) {
	w.place = w.c.lines.Join(w.r.key, w.r)
	defer func() {
		if _, _, last := w.place.Leave(); last && w.asked {
			w.c.leave(w.r.key)
		}
	}()
	timer := time.NewTimer(w.wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.c.calls.Closing():
			return nil, pgcoord.ErrClosed
		case <-w.place.Wake():
		case <-timer.C:
		}
		if !w.place.StartLook() {
			continue
		}
		a, next, err := w.look(ctx)
		w.place.EndLook()
		if a != nil || err != nil {
			return a, err
		}
		timer.Reset(next)
	}
}

// look asks once for the row. It returns an attempt, or when to look again.
func (w *waiter) look(ctx context.Context) (*Attempt, time.Duration, error) {
	if !w.r.kept && w.c.holds(w.r.key) {
		return nil, pace.Jitter(pace.Fallback), nil // its end will tell
	}
	a, seen, err := w.c.try(ctx, w.r)
	switch {
	case err != nil && ctx.Err() == nil && w.looked && pgerr.Transient(err):
		return nil, pace.Jitter(pace.Fallback), nil // an outage is waited out
	case err != nil || a != nil:
		return a, 0, err
	}
	w.looked = true
	if err := w.c.refusal(w.r, seen); !errors.Is(err, pgcoord.ErrHeld) {
		return nil, 0, err
	}
	return nil, w.next(ctx, seen), nil
}

// next returns when to look again after seen, and asks to be told before.
func (w *waiter) next(ctx context.Context, seen *sight) time.Duration {
	resting := seen.state == w.c.step.Ready && seen.remaining > 0
	working := seen.state == w.c.step.Working && seen.outcome == "open" && seen.remaining > 0
	switch {
	case resting:
		w.pause.Reset()
		return min(pace.Jitter(pace.Fallback), seen.protected()+time.Millisecond)
	case !working && seen.outcome == "none": // Working by no attempt of ours
		return pace.Jitter(pace.Poll)
	case !working: // free or over, but locked by somebody
		return w.pause.Next()
	case !w.c.hub.Works():
		return min(pace.Jitter(pace.Poll), seen.protected()+time.Millisecond)
	}
	told, err := w.c.ask(ctx, w.r.key, seen.token)
	w.asked = w.asked || told
	if err != nil || !told {
		return w.pause.Next()
	}
	w.pause.Reset()
	return min(pace.Jitter(pace.Fallback), seen.protected()+time.Millisecond)
}

// ask asks to be told of the end of the attempt of token. It reports false when
// that has ended, or is locked for a moment.
func (c *Coordinator) ask(ctx context.Context, key string, token int64) (bool, error) {
	var found int64
	_, err := c.run.QueryRow(ctx, awaitSQL, []any{c.m.name, key, token, c.hub.Channel(), waiterLife.Microseconds()}, &found)
	return found == 1, err
}

// leave asks no longer, when nobody here waits any more.
func (c *Coordinator) leave(key string) {
	c.calls.Background(func() {
		if c.lines.Len(key) > 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), giveBackLimit)
		defer cancel()
		_, _, _ = c.run.Exec(ctx, leaveSQL, c.m.name, key, c.hub.Channel()) // it dies with its deadline
	})
}
