package uniquelock

import (
	"context"
	"errors"
	"time"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/line"
	"github.com/pgcoord/pgcoord/internal/pace"
	"github.com/pgcoord/pgcoord/internal/pgerr"
)

const (
	// slotLife is how long a place among other processes lives without a look.
	slotLife = 10 * time.Second
	// longestFirstLease protects a grant to a waiting process until that has taken it.
	longestFirstLease = 2 * time.Second
	// turns is how often a key is handed on within the process while others wait.
	turns = 16
)

// delivery is what the first of a line receives from who ends a claim here.
type delivery struct {
	lease *Lease
	err   error
}

// place is a caller's place in the line of this process.
type place = line.Place[*request, delivery]

// Lock waits until key is free and claims it.
//
// It fails as TryLock does, but where that says pgcoord.ErrHeld it waits until
// ctx ends. A failed call leaves neither a claim nor a place in a line behind.
// An outage of the database while it waits is waited out too.
//
// Callers of one process are served first come, first served, by one of them
// looking for all; a release hands the key to the next in one statement.
func (c *Coordinator) Lock(ctx context.Context, key string, lo LockOptions) (*Lease, error) {
	if err := c.calls.Enter(); err != nil {
		return nil, describe("lock", key, err)
	}
	defer c.calls.Leave()
	r, err := c.newRequest(ctx, key, lo)
	if err != nil {
		return nil, describe("lock", key, err)
	}
	lease, err := c.lock(ctx, r)
	if err != nil {
		return nil, describe("lock", key, err)
	}
	return lease, nil
}

func (c *Coordinator) lock(ctx context.Context, r *request) (*Lease, error) {
	var seen *sight
	// Whoever repeats a call under its own id may have the key already, whoever waits.
	if r.kept || c.lines.Len(r.key) == 0 && !c.holds(r.key) {
		lease, s, err := c.try(ctx, r)
		switch {
		case err != nil || lease != nil:
			return lease, err
		case s.state == "done":
			return nil, pgcoord.ErrDone
		}
		seen = s
	}
	return c.waitInLine(ctx, r, seen)
}

func (c *Coordinator) waitInLine(ctx context.Context, r *request, seen *sight) (*Lease, error) {
	c.hub.Start()
	w := &waiter{c: c, r: r, place: c.lines.Join(r.key, r), seen: seen, looked: c.ground.sound.Load()}
	lease, err := w.wait(ctx)
	late, delivered, last := w.place.Leave()
	if delivered && late.lease != nil {
		c.abandon(late.lease)
	}
	if last {
		c.leave(ctx, r.key, lease != nil)
	}
	return lease, err
}

// wait waits for a delivery, and looks for the key whenever it is this one's turn.
func (w *waiter) wait(ctx context.Context) (*Lease, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case d := <-w.place.Delivered():
			return d.lease, d.err
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
		lease, next, err := w.look(ctx)
		w.place.EndLook()
		if lease != nil || err != nil {
			return lease, err
		}
		timer.Reset(next)
	}
}

// abandon releases a lease whose caller has gone.
func (c *Coordinator) abandon(l *Lease) {
	c.calls.Background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackLimit)
		defer cancel()
		_ = l.Release(ctx) // what it does not reach ends with the lease
	})
}

// waiter is the first of a line, which looks for all of it.
type waiter struct {
	c      *Coordinator
	r      *request
	place  *place
	seen   *sight // by the try that came before the line, if any
	looked bool   // the database has answered once
	pause  pace.Backoff
}

// look asks once for the key. It returns a lease, or when to look again.
func (w *waiter) look(ctx context.Context) (*Lease, time.Duration, error) {
	if w.c.holds(w.r.key) {
		return nil, pace.Jitter(pace.Fallback), nil // its end will tell
	}
	lease, seen, err := w.ask(ctx)
	switch {
	case err != nil && ctx.Err() == nil && w.looked && (pgerr.Transient(err) || errors.Is(err, context.DeadlineExceeded)):
		return nil, pace.Jitter(pace.Fallback), nil // an outage is waited out
	case err != nil || lease != nil:
		return lease, 0, err
	case seen.state == "done":
		return nil, 0, pgcoord.ErrDone
	}
	w.looked = true
	return nil, w.next(seen), nil
}

// next returns when to look again after seen.
func (w *waiter) next(seen *sight) time.Duration {
	if seen.state != "held" { // free or held, but locked
		return w.pause.Next()
	}
	w.pause.Reset()
	wait := pace.Jitter(pace.Fallback)
	if !w.c.hub.Works() {
		wait = pace.Jitter(pace.Poll)
	}
	// Just after the end of the lease, if that comes sooner.
	return min(wait, seen.protected()+time.Millisecond)
}

// ask looks at the key in the cheapest way that can succeed: take a grant that
// was announced, keep the place among other processes, or try for the key.
func (w *waiter) ask(ctx context.Context) (*Lease, *sight, error) {
	s := w.c.slotOf(w.r.key)
	if s.granted {
		if lease, _, err := w.c.takeSlot(ctx, w.r, s); lease != nil || err != nil {
			return lease, nil, err
		}
		s = w.c.slotOf(w.r.key) // that one is used up
	}
	if !s.enqueued {
		lease, seen, err := w.tryFirst(ctx)
		if lease != nil || err != nil || seen.state != "held" || !w.c.hub.Works() {
			return lease, seen, err
		}
	}
	seen, err := w.c.enqueue(ctx, w.r.key, s.id)
	switch {
	case err != nil:
		return nil, nil, err
	case seen.claimID == s.id:
		return w.c.takeSlot(ctx, w.r, s)
	case seen.state == "free":
		return w.c.try(ctx, w.r)
	}
	return nil, seen, nil // held, done, or locked
}

// tryFirst tries for the key, unless that has just been done.
func (w *waiter) tryFirst(ctx context.Context) (*Lease, *sight, error) {
	if seen := w.seen; seen != nil {
		w.seen = nil
		return nil, seen, nil
	}
	return w.c.try(ctx, w.r)
}
