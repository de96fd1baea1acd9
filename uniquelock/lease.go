package uniquelock

import (
	"sync/atomic"
	"time"

	"github.com/pgcoord/pgcoord/internal/gate"
)

// Lease is a claim on a key: it is renewed in the background until Complete,
// Release or its loss. It implements pgcoord.Claim.
type Lease struct {
	c       *Coordinator
	key     string
	token   int64
	claimID string
	terms   terms
	gate    *gate.Gate
	broken  atomic.Pointer[string] // why, if a notification said that it was broken
	adrift  atomic.Bool            // its end failed: it is not renewed, and may have ended

	streak     int  // hand-overs within the process, without a turn for others
	othersWait bool // another process was waiting at its grant
}

// newLease starts the life of a claim that was granted by a statement sent at
// sent.
func (c *Coordinator) newLease(key, claimID string, token int64, t terms, sent time.Time) *Lease {
	l := c.prepare(key, claimID, token, t, sent)
	l.start()
	return l
}

func (c *Coordinator) prepare(key, claimID string, token int64, t terms, sent time.Time) *Lease {
	l := &Lease{c: c, key: key, token: token, claimID: claimID, terms: t}
	l.gate = gate.New(t.ttl, sent, func() { c.forget(l) })
	return l
}

// start makes the lease known to the process and keeps it alive from now on.
func (l *Lease) start() {
	c := l.c
	c.mu.Lock()
	if c.held[l.key] == nil {
		c.held[l.key] = map[*Lease]struct{}{}
	}
	c.held[l.key][l] = struct{}{}
	c.mu.Unlock()
	l.gate.Start()
	c.keeper.Add(l)
	c.hub.Start()
}

// Key implements pgcoord.Claim.
func (l *Lease) Key() string { return l.key }

// Token implements pgcoord.Claim.
func (l *Lease) Token() int64 { return l.token }

// Lost implements pgcoord.Claim. It closes once: when the database says that the
// claim is not current, or when the lease ran out on this process's clock without
// a renewal, or when Close released it. Complete and Release do not close it.
func (l *Lease) Lost() <-chan struct{} { return l.gate.Lost() }

// Remaining returns how long the lease lasts at least, by this process's
// monotonic clock and without asking anybody; 0 once it has run out or ended. A
// claim whose lease ran out may still be current: that is for BeginFunc to find out.
func (l *Lease) Remaining() time.Duration { return l.gate.Remaining() }

// forget takes l out of the living leases of the process and stops its renewal.
func (c *Coordinator) forget(l *Lease) {
	c.keeper.Remove(l)
	c.mu.Lock()
	delete(c.held[l.key], l)
	if len(c.held[l.key]) == 0 {
		delete(c.held, l.key)
	}
	c.mu.Unlock()
	c.lines.WakeFirst(l.key)
}

// holds reports whether a lease of this process is alive on key: its end will
// tell whoever waits here.
func (c *Coordinator) holds(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.held[key] {
		if !l.adrift.Load() {
			return true
		}
	}
	return false
}
