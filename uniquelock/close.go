package uniquelock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pgcoord/pgcoord"
)

// Close ends the coordinator: it grants nothing more, lets open guarded
// transactions finish, releases all leases and closes its own connections. Calls
// that wait for a key fail with pgcoord.ErrClosed.
//
// It fails with the error of ctx when guarded work is still going on; the leases
// it could not release are lost here, told by Lost, and free at the end of their
// TTL at the latest.
//
// A second Close waits for the first. The pool stays open.
func (c *Coordinator) Close(ctx context.Context) error {
	err := c.calls.Close(ctx, func(ctx context.Context) error {
		c.mu.Lock()
		leases := c.living()
		c.mu.Unlock()
		err := releaseAll(ctx, leases)
		c.keeper.Close()
		c.hub.Close()
		return err
	})
	if err != nil {
		return fmt.Errorf("uniquelock: close: %w", err)
	}
	return nil
}

// living returns the living leases; the caller has the lock.
func (c *Coordinator) living() []*Lease {
	var all []*Lease
	for _, leases := range c.held {
		for l := range leases {
			all = append(all, l)
		}
	}
	return all
}

// releaseAll releases leases side by side, as far as ctx allows, and gives up
// those that it could not.
func releaseAll(ctx context.Context, leases []*Lease) error {
	var group sync.WaitGroup
	errs := make([]error, len(leases))
	for i, l := range leases {
		group.Go(func() { // each its own: one may have to wait for guarded work
			err := l.Release(ctx)
			if err != nil && !errors.Is(err, pgcoord.ErrLost) {
				errs[i] = err
				_ = l.gate.Refuse(pgcoord.ErrClosed)
			}
			l.gate.Tell() // work that still goes on has lost its claim
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
