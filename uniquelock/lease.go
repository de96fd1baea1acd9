package uniquelock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgcoord/pgcoord"
)

// Lease is a claim on a key: it is renewed in the background until Complete,
// Release or its loss. It implements pgcoord.Claim.
type Lease struct {
	c       *Coordinator
	key     string
	token   int64
	claimID string
	terms   terms
	lost    chan struct{}
	turn    chan struct{}          // holds one: whoever may end the lease
	broken  atomic.Pointer[string] // why, if a notification said that it was broken

	streak     int  // hand-overs within the process, without a turn for others
	othersWait bool // another process was waiting at its grant

	mu       sync.Mutex
	state    state
	guards   int           // open guarded transactions
	idle     chan struct{} // closed when guards falls to 0 while the gate is shut
	shut     bool          // no new guarded transactions: the lease is being ended
	deadline time.Time     // monotonic; counted from before the last renewal was sent
	due      time.Time     // of the next renewal
	timer    *time.Timer   // strikes at the deadline
	cause    error         // why it was lost, once that is certain
}

// state is how a lease ended, or that it has not.
type state int

const (
	open state = iota
	completed
	released
	gone // the database said that another claim is current, or none
)

// newLease starts the life of a claim that was granted by a statement sent at
// sent.
func (c *Coordinator) newLease(key, claimID string, token int64, t terms, sent time.Time) *Lease {
	l := c.prepare(key, claimID, token, t, sent)
	l.start()
	return l
}

func (c *Coordinator) prepare(key, claimID string, token int64, t terms, sent time.Time) *Lease {
	return &Lease{
		c: c, key: key, token: token, claimID: claimID, terms: t,
		lost: make(chan struct{}), turn: make(chan struct{}, 1),
		deadline: sent.Add(t.ttl), due: sent.Add(t.ttl / 3),
	}
}

// start makes the lease known to the process and keeps it alive from now on.
func (l *Lease) start() {
	c := l.c
	l.mu.Lock()
	l.timer = time.AfterFunc(time.Until(l.deadline), l.overdue)
	l.mu.Unlock()
	c.mu.Lock()
	if c.held[l.key] == nil {
		c.held[l.key] = map[*Lease]struct{}{}
	}
	c.held[l.key][l] = struct{}{}
	c.mu.Unlock()
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
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Remaining returns how long the lease lasts at least, by this process's
// monotonic clock and without asking anybody; 0 once it has run out or ended. A
// claim whose lease ran out may still be current: that is for BeginFunc to find out.
func (l *Lease) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != open {
		return 0
	}
	return max(0, time.Until(l.deadline))
}

// renewAt tells the keeper when the next renewal is due.
func (l *Lease) renewAt() (due time.Time, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.due, l.terms.ttl
}

// renewed notes a renewal by a statement sent at sent.
func (l *Lease) renewed(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != open {
		return
	}
	l.due = sent.Add(l.terms.ttl / 3)
	if deadline := sent.Add(l.terms.ttl); deadline.After(l.deadline) && !l.isLost() {
		l.deadline = deadline
		l.timer.Reset(time.Until(deadline))
	}
}

// skipped notes that somebody had the row locked: no loss, tried again soon.
func (l *Lease) skipped(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = now.Add(l.terms.ttl / 12)
}

// overdue tells the loss by the local clock. The claim may still be current in
// the database, so its guarded transactions go on to ask there.
func (l *Lease) overdue() {
	l.mu.Lock()
	late := l.state == open && !time.Now().Before(l.deadline)
	if late {
		l.tellLocked()
	}
	l.mu.Unlock()
	if late {
		l.c.forget(l)
	}
}

// refused notes for good that the database does not know the claim as current.
func (l *Lease) refused(cause error) error {
	l.mu.Lock()
	if l.state == open {
		l.state, l.cause = gone, cause
		l.tellLocked()
	}
	err := l.endedLocked()
	l.mu.Unlock()
	l.timer.Stop()
	l.c.forget(l)
	return err
}

// tell closes lost.
func (l *Lease) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tellLocked()
}

func (l *Lease) tellLocked() {
	if !l.isLost() {
		close(l.lost)
	}
}

// isLost reports whether lost is closed; the caller has the lock.
func (l *Lease) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// endedLocked returns why a lease that has ended cannot be used any more.
func (l *Lease) endedLocked() error {
	switch l.state {
	case completed:
		return fmt.Errorf("%w: the claim was completed", pgcoord.ErrLost)
	case released:
		return fmt.Errorf("%w: the claim was released", pgcoord.ErrLost)
	case gone:
		return fmt.Errorf("%w: %w", pgcoord.ErrLost, l.cause)
	}
	return nil
}

// startGuard counts a guarded transaction in, unless the lease has ended or is
// being ended.
func (l *Lease) startGuard() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.endedLocked(); err != nil {
		return err
	}
	if l.shut {
		return fmt.Errorf("%w: the claim is being completed or released", pgcoord.ErrConflict)
	}
	l.guards++
	return nil
}

func (l *Lease) endGuard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guards--
	if l.guards == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// startEnd waits for the turn to end the lease and for its open guarded
// transactions, and shuts the gate for new ones. It returns the state; where that
// is open the caller owes finishEnd.
func (l *Lease) startEnd(ctx context.Context) (state, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return open, ctx.Err()
	}
	l.mu.Lock()
	if l.state != open {
		s := l.state
		l.mu.Unlock()
		<-l.turn
		return s, nil
	}
	l.shut = true
	var idle chan struct{}
	if l.guards > 0 {
		idle = make(chan struct{})
		l.idle = idle
	}
	l.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
			l.finishEnd(open)
			return open, fmt.Errorf("a guarded transaction of the claim is still open: %w", ctx.Err())
		}
	}
	return open, nil
}

// finishEnd notes how the attempt to end the lease went, and gives the turn on.
func (l *Lease) finishEnd(s state) {
	l.mu.Lock()
	l.shut, l.idle = false, nil
	if s != open { // the database's answer to the end itself counts most
		l.state = s
	}
	ended := l.state != open
	l.mu.Unlock()
	if ended {
		l.timer.Stop()
		l.c.forget(l)
	}
	<-l.turn
}

// ending reports whether somebody is just ending the lease.
func (l *Lease) ending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shut
}

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
	return len(c.held[key]) > 0
}
