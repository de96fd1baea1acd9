// Package renewal keeps leases alive in the background: one goroutine, one
// connection of its own and one statement per round for all leases of a
// coordinator, so that neither a busy pool nor their number delays one.
package renewal

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// retry is the pause after a round that failed. One failure is no loss: the
	// lease ends by its own deadline, not by an error.
	retry = 50 * time.Millisecond
	// A round gives up its connection after a quarter of the shortest TTL, so that
	// a dead connection leaves time for a new one.
	minRound, maxRound = 50 * time.Millisecond, 5 * time.Second
	idle               = time.Hour // when nothing is due
)

// Keeper renews leases until they are removed.
type Keeper[L comparable] struct {
	at      func(L) (due time.Time, ttl time.Duration)
	connect func(context.Context) (*pgx.Conn, error)
	renew   func(context.Context, *pgx.Conn, []L) error
	log     *slog.Logger

	mu     sync.Mutex
	leases map[L]struct{}
	next   time.Time // when the goroutine will look by itself
	kicked bool      // all leases are due now

	start sync.Once
	wake  chan struct{}
	ctx   context.Context
	stop  context.CancelFunc
	done  sync.WaitGroup
	conn  *pgx.Conn // of the goroutine
}

// NewKeeper returns a Keeper. At tells when a lease is due for renewal, and its
// TTL. Renew gets all leases that are due in one call and
// tells each what became of it; its error is about the call as a whole.
func NewKeeper[L comparable](log *slog.Logger, at func(L) (due time.Time, ttl time.Duration),
	connect func(context.Context) (*pgx.Conn, error), renew func(context.Context, *pgx.Conn, []L) error,
) *Keeper[L] {
	k := &Keeper[L]{
		at: at, connect: connect, renew: renew, log: log,
		leases: map[L]struct{}{}, wake: make(chan struct{}, 1),
	}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// Add keeps lease alive from now on.
func (k *Keeper[L]) Add(lease L) {
	due, _ := k.at(lease)
	k.mu.Lock()
	k.leases[lease] = struct{}{}
	sooner := k.next.IsZero() || due.Before(k.next)
	if sooner {
		k.next = due
	}
	k.mu.Unlock()
	k.start.Do(func() {
		k.done.Add(1)
		go func() {
			defer k.done.Done()
			k.run()
		}()
	})
	if sooner {
		k.signal()
	}
}

// Remove lets lease go. A round under way may still renew it once.
func (k *Keeper[L]) Remove(lease L) {
	k.mu.Lock()
	delete(k.leases, lease)
	k.mu.Unlock()
}

// Kick renews all leases now: what became of them may have changed unheard.
func (k *Keeper[L]) Kick() {
	k.mu.Lock()
	k.kicked = true
	k.mu.Unlock()
	k.signal()
}

// Close ends the goroutine and its connection. The leases are on their own then.
func (k *Keeper[L]) Close() {
	k.stop()
	k.start.Do(func() {}) // one that never started never will
	k.done.Wait()
}

func (k *Keeper[L]) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Keeper[L]) run() {
	defer k.disconnect()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-timer.C:
		case <-k.wake:
		}
		due, shortest, all := k.collect(time.Now())
		failed := len(due) > 0 && k.round(due, shortest) != nil
		timer.Reset(k.pause(time.Now(), failed, failed && all))
	}
}

// collect returns the leases to renew now. One that is due soon comes along, so
// that leases granted at different times end up in one round.
func (k *Keeper[L]) collect(now time.Time) (due []L, shortest time.Duration, all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, k.kicked = k.kicked, false
	if !all && k.earliest(now.Add(idle)).After(now) {
		return nil, 0, false
	}
	for lease := range k.leases {
		at, ttl := k.at(lease)
		if all || at.Add(-ttl/6).Before(now) {
			due = append(due, lease)
			if shortest == 0 || ttl < shortest {
				shortest = ttl
			}
		}
	}
	return due, shortest, all
}

// earliest returns when the first lease is due, at most limit.
func (k *Keeper[L]) earliest(limit time.Time) time.Time {
	for lease := range k.leases {
		if at, _ := k.at(lease); at.Before(limit) {
			limit = at
		}
	}
	return limit
}

// pause tells how long nothing is due, and notes until when. After a failure the
// next round comes after the retry pause, with all leases if all were meant.
func (k *Keeper[L]) pause(now time.Time, failed, all bool) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kicked = k.kicked || all
	k.next = k.earliest(now.Add(idle))
	if again := now.Add(retry); failed && (all || k.next.Before(again)) {
		k.next = again
	}
	return k.next.Sub(now)
}

func (k *Keeper[L]) round(due []L, shortest time.Duration) error {
	ctx, cancel := context.WithTimeout(k.ctx, min(max(shortest/4, minRound), maxRound))
	defer cancel()
	err := k.try(ctx, due)
	if err != nil {
		k.disconnect()
		if k.ctx.Err() == nil {
			k.log.Debug("pgcoord: a round of renewals failed and will be repeated", "leases", len(due), "error", err)
		}
	}
	return err
}

func (k *Keeper[L]) try(ctx context.Context, due []L) (err error) {
	if k.conn == nil {
		if k.conn, err = k.connect(ctx); err != nil {
			k.conn = nil
			return err
		}
	}
	return k.renew(ctx, k.conn, due)
}

func (k *Keeper[L]) disconnect() {
	if k.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = k.conn.Close(ctx)
	k.conn = nil
}
