package uniquelock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// slot is this process's place among the processes that wait for a key.
type slot struct {
	id       string // the claim id under which the place is granted
	enqueued bool
	granted  bool // a notification said so
}

// firstLease is how long a grant to a waiting process is protected: the dead block a
// key no longer than a TTL.
func (c *Coordinator) firstLease() time.Duration { return min(longestFirstLease, c.opts.TTL) }

// slotOf returns a copy of the process's place for key, made at first use.
func (c *Coordinator) slotOf(key string) slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.slotLocked(key)
}

func (c *Coordinator) slotLocked(key string) *slot {
	if c.slots[key] == nil {
		c.slots[key] = &slot{id: "slot:" + rand.Text()}
	}
	return c.slots[key]
}

// takeSlot makes a lease of the grant to the process's place.
func (c *Coordinator) takeSlot(ctx context.Context, r *request, s slot) (*Lease, *sight, error) {
	c.mu.Lock()
	if now := c.slots[r.key]; now != nil && now.id == s.id {
		delete(c.slots, r.key) // the grant has used it up
	}
	c.mu.Unlock()
	lease, seen, err := c.adopt(ctx, r, s.id)
	if err != nil {
		c.giveBack(r.key, s.id)
	}
	return lease, seen, err
}

// enqueue takes the process's place among the waiters, or keeps it alive.
func (c *Coordinator) enqueue(ctx context.Context, key, id string) (*sight, error) {
	// Noted before the statement is sent: when its reply gets lost, the place is
	// there and must be given up all the same.
	before := c.noteEnqueued(key, id, true)
	seen := &sight{}
	_, err := c.run.QueryRow(ctx, enqueueSQL,
		[]any{key, id, c.hub.Channel(), c.opts.Holder, slotLife.Microseconds()}, seen.dest()...)
	if errors.Is(err, pgx.ErrNoRows) {
		c.noteEnqueued(key, id, before)
		return &sight{state: "locked"}, nil // by a statement under way, or pruned meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("wait among other processes: %w", err)
	}
	return seen, nil
}

// noteEnqueued notes whether the place may be in the table, and returns what was
// noted before.
func (c *Coordinator) noteEnqueued(key, id string, now bool) (before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.slots[key]; s != nil && s.id == id {
		before, s.enqueued = s.enqueued, now
	}
	return before
}

// leave gives the process's place up when nobody here waits any more. Who has won
// the key does so before it goes on, or its own release might pass the key to the
// place; who has not leaves it to the background, with what may have been granted
// to the place meanwhile.
func (c *Coordinator) leave(ctx context.Context, key string, won bool) {
	c.mu.Lock()
	s := c.slots[key]
	if s == nil || c.lines.Len(key) > 0 {
		c.mu.Unlock()
		return
	}
	delete(c.slots, key)
	c.mu.Unlock()
	if !s.enqueued {
		return
	}
	if won {
		if _, _, err := c.run.Exec(ctx, leaveSQL, key, s.id); err == nil {
			return
		}
	}
	c.calls.Background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackLimit)
		defer cancel()
		_, _, _ = c.run.Exec(ctx, leaveSQL, key, s.id) // a place that stays dies with its deadline
		c.giveBack(key, s.id)
	})
}
