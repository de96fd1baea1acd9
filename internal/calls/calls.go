// Package calls counts what is under way in a coordinator, so that it can be
// closed: calls are refused once closing has begun, work in the background once it
// is over, and closing waits for both.
package calls

import (
	"context"
	"errors"
	"sync"

	"github.com/pgcoord/pgcoord"
)

// Calls is what is under way. Use New.
type Calls struct {
	mu      sync.Mutex
	calls   sync.WaitGroup
	behind  sync.WaitGroup // in the background
	begun   bool           // closing: no more calls
	ended   bool           // no more in the background either
	closing chan struct{}
	over    chan struct{}
}

// New returns a Calls with nothing under way.
func New() *Calls {
	return &Calls{closing: make(chan struct{}), over: make(chan struct{})}
}

// Enter counts a call, which owes Leave. It fails with pgcoord.ErrClosed once
// closing has begun.
func (c *Calls) Enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun {
		return pgcoord.ErrClosed
	}
	c.calls.Add(1)
	return nil
}

// Leave ends what Enter began.
func (c *Calls) Leave() { c.calls.Done() }

// Background runs fn beside its caller, unless all is over.
func (c *Calls) Background(fn func()) {
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.behind.Add(1)
	}
	c.mu.Unlock()
	if ended {
		return
	}
	go func() {
		defer c.behind.Done()
		fn()
	}()
}

// Closing returns a channel that is closed when closing begins.
func (c *Calls) Closing() <-chan struct{} { return c.closing }

// Close waits for the calls that are under way, runs end, which ends what the
// coordinator holds, and waits for the background. Where ctx ends, it goes on to
// the next step. Further calls wait for the first.
func (c *Calls) Close(ctx context.Context, end func(context.Context) error) error {
	c.mu.Lock()
	first := !c.begun
	c.begun = true
	c.mu.Unlock()
	if !first {
		return wait(ctx, c.over)
	}
	close(c.closing)
	calls := make(chan struct{})
	go func() {
		c.calls.Wait()
		close(calls)
	}()
	errs := []error{wait(ctx, calls), end(ctx)}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	go func() {
		c.calls.Wait()
		c.behind.Wait()
		close(c.over)
	}()
	return errors.Join(append(errs, wait(ctx, c.over))...)
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
