// Package gate is the life of a claim within its process: who may begin a guarded
// transaction under it, who ends it and when that may happen, and whether it was
// lost. The database decides who holds a key; a gate keeps the goroutines of one
// process from stepping on each other, and tells them in time.
package gate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pgcoord/pgcoord"
)

// State is how a claim ended, or that it has not.
type State int

const (
	// Open is a claim that has not ended as far as this process knows.
	Open State = iota
	// Completed and Released were ended by their holder.
	Completed
	Released
	// Gone is one that the database did not know as current any more.
	Gone
)

// Gate is the life of one claim.
type Gate struct {
	ttl    time.Duration
	onOver func() // once the gate is not open, or late; without the lock
	lost   chan struct{}
	turn   chan struct{} // holds one: whoever may end the claim

	mu       sync.Mutex
	state    State
	inside   int           // open guarded transactions
	idle     chan struct{} // closed when inside falls to 0 while the gate is shut
	shut     bool          // nobody enters: the claim is being ended
	deadline time.Time     // monotonic; counted from before the last renewal was sent
	due      time.Time     // of the next renewal
	timer    *time.Timer   // strikes at the deadline
	cause    error         // why it is gone
}

// New returns the gate of a claim that lasts for ttl from sent, when the statement
// that won it was sent. OnOver is called when the claim has ended, or is late by
// the local clock, perhaps more than once.
func New(ttl time.Duration, sent time.Time, onOver func()) *Gate {
	return &Gate{
		ttl: ttl, onOver: onOver, lost: make(chan struct{}), turn: make(chan struct{}, 1),
		deadline: sent.Add(ttl), due: sent.Add(ttl / 3),
	}
}

// Start starts the watch over the deadline.
func (g *Gate) Start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(time.Until(g.deadline), g.overdue)
}

// Lost is closed when the claim can no longer be relied on.
func (g *Gate) Lost() <-chan struct{} { return g.lost }

// Remaining returns how long the claim lasts at least, by the local clock.
func (g *Gate) Remaining() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != Open {
		return 0
	}
	return max(0, time.Until(g.deadline))
}

// RenewAt tells when the next renewal is due, and the TTL.
func (g *Gate) RenewAt() (due time.Time, ttl time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.due, g.ttl
}

// Renewed notes a renewal by a statement sent at sent.
func (g *Gate) Renewed(sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != Open {
		return
	}
	g.due = sent.Add(g.ttl / 3)
	if deadline := sent.Add(g.ttl); deadline.After(g.deadline) && !g.isLost() {
		g.deadline = deadline
		g.timer.Reset(time.Until(deadline))
	}
}

// Skipped notes that the claim could be neither renewed nor refused: no loss, it is
// due again soon.
func (g *Gate) Skipped(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due = now.Add(g.ttl / 12)
}

// overdue tells the loss by the local clock. The claim may still be current in the
// database, so the gate stays open: its guarded transactions ask there.
func (g *Gate) overdue() {
	g.mu.Lock()
	late := g.state == Open && !time.Now().Before(g.deadline)
	if late {
		g.tell()
	}
	g.mu.Unlock()
	if late {
		g.onOver()
	}
}

// Refuse notes for good that the claim is not current, and returns the error for
// whoever uses it.
func (g *Gate) Refuse(cause error) error {
	g.mu.Lock()
	if g.state == Open {
		g.state, g.cause = Gone, cause
		g.tell()
	}
	err := g.ended()
	g.timer.Stop()
	g.mu.Unlock()
	g.onOver()
	return err
}

// Tell closes Lost.
func (g *Gate) Tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tell()
}

func (g *Gate) tell() {
	if !g.isLost() {
		close(g.lost)
	}
}

func (g *Gate) isLost() bool {
	select {
	case <-g.lost:
		return true
	default:
		return false
	}
}

// Ended returns why the claim cannot be used any more, or nil.
func (g *Gate) Ended() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended()
}

func (g *Gate) ended() error {
	switch g.state {
	case Completed:
		return fmt.Errorf("%w: the claim was completed", pgcoord.ErrLost)
	case Released:
		return fmt.Errorf("%w: the claim was released", pgcoord.ErrLost)
	case Gone:
		return fmt.Errorf("%w: %w", pgcoord.ErrLost, g.cause)
	}
	return nil
}

// Enter counts a guarded transaction in, unless the claim has ended or is being
// ended. Who has entered owes Leave.
func (g *Gate) Enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ended(); err != nil {
		return err
	}
	if g.shut {
		return fmt.Errorf("%w: the claim is being completed or released", pgcoord.ErrConflict)
	}
	g.inside++
	return nil
}

// Leave ends what Enter began.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// StartEnd waits for the turn to end the claim and for its open guarded
// transactions, and shuts the gate for new ones. It returns the state; where that
// is Open the caller owes FinishEnd.
func (g *Gate) StartEnd(ctx context.Context) (State, error) {
	select {
	case g.turn <- struct{}{}:
	case <-ctx.Done():
		return Open, ctx.Err()
	}
	g.mu.Lock()
	if g.state != Open {
		s := g.state
		g.mu.Unlock()
		<-g.turn
		return s, nil
	}
	g.shut = true
	var idle chan struct{}
	if g.inside > 0 {
		idle = make(chan struct{})
		g.idle = idle
	}
	g.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
			g.FinishEnd(Open)
			return Open, fmt.Errorf("a guarded transaction of the claim is still open: %w", ctx.Err())
		}
	}
	return Open, nil
}

// FinishEnd notes how the attempt to end the claim went, and gives the turn on.
func (g *Gate) FinishEnd(s State) {
	g.mu.Lock()
	g.shut, g.idle = false, nil
	if s != Open { // the database's answer to the end itself counts most
		g.state = s
	}
	ended := g.state != Open
	if ended {
		g.timer.Stop()
	}
	g.mu.Unlock()
	if ended {
		g.onOver()
	}
	<-g.turn
}

// Ending reports whether somebody is just ending the claim.
func (g *Gate) Ending() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}
