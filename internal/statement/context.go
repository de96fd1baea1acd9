package statement

import (
	"context"
	"time"
)

// Grace is how long a statement under way may go on after its caller's context
// has ended, so that its outcome is known and its connection survives.
const Grace = 250 * time.Millisecond

// Outlive returns a context with the values of parent that ends grace after
// parent does, and after limit in any case.
func Outlive(parent context.Context, grace, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), limit)
	if parent.Done() == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(parent, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() { stop(); cancel() }
}

// Sleep waits for d or until ctx ends, whose error it returns then.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
