// Package pace says how long to wait before looking again.
package pace

import (
	"math/rand/v2"
	"time"
)

const (
	// Fallback is how long a waiter trusts in being woken.
	Fallback = time.Second
	// Poll is how often one looks that nobody can wake.
	Poll = 50 * time.Millisecond

	shortest = 2 * time.Millisecond
)

// Jitter spreads d by a quarter, so that processes do not look in step.
func Jitter(d time.Duration) time.Duration {
	return d - d/8 + rand.N(d/4)
}

// Backoff paces looks at a row that somebody has locked for a moment, a late
// guarded transaction for instance: from 2 ms, doubling up to Poll. The zero value
// is ready for use.
type Backoff struct{ last time.Duration }

// Next returns the next pause.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, shortest), Poll)
	return Jitter(b.last)
}

// Reset starts again from the shortest pause.
func (b *Backoff) Reset() { b.last = 0 }
