package uniquelock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// The minimum hold outlasts each way to end a claim, whoever waits for it.
func TestMinimumHold(t *testing.T) {
	t.Parallel()
	for verb, end := range map[string]func(context.Context, *uniquelock.Lease) error{
		"release":  func(ctx context.Context, l *uniquelock.Lease) error { return l.Release(ctx) },
		"complete": func(ctx context.Context, l *uniquelock.Lease) error { return l.Complete(ctx, nil) },
		"complete with work": func(ctx context.Context, l *uniquelock.Lease) error {
			return l.Complete(ctx, func(pgx.Tx) error { return nil })
		},
	} {
		for _, who := range []string{"nobody", "this process", "another process"} {
			t.Run(verb+"/"+who+" waits", func(t *testing.T) {
				t.Parallel()
				c := newChain(t)
				lease := tryLock(t, c.a, "k", uniquelock.LockOptions{MinHold: time.Hour})
				ctx, cancel := context.WithCancel(c.ctx)
				defer cancel()
				switch who {
				case "this process":
					async(ctx, c.a, "k")
					pgtest.Eventually(t, 5*time.Second, "it waits", func() bool { return uniquelock.Waiting(c.a, "k") == 1 })
				case "another process":
					async(ctx, c.b, "k")
					pgtest.Eventually(t, 5*time.Second, "it waits", func() bool { return waiting(t, c.pool, "k") == 1 })
				}
				if err := end(ctx, lease); err != nil {
					t.Fatal(err)
				}
				if _, err := newCoordinator(t, c.pool, uniquelock.Options{}).TryAcquire(ctx, "k"); !errors.Is(err, pgcoord.ErrHeld) {
					t.Errorf("try within the minimum hold: %v", err)
				}
				if token := scan[int64](t, c.pool, "SELECT token FROM pgcoord.task_locks"); token != lease.Token() {
					t.Errorf("token %d was granted within the minimum hold of %d", token, lease.Token())
				}
			})
		}
	}
}

// A claim has its minimum hold however it was granted.
func TestMinimumHoldOfEachGrant(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t)
			c.grant()
			hold := uniquelock.Options{MinHold: time.Hour}
			switch name {
			case "pass":
				c.b = newCoordinator(t, c.pool, hold)
			case "hand-over":
				c.release()
				c.a = newCoordinator(t, c.pool, uniquelock.Options{MinHold: time.Hour})
				c.lease = tryLock(t, c.a, "k", uniquelock.LockOptions{MinHold: time.Microsecond})
			default:
				c.release()
				c.a = newCoordinator(t, c.pool, hold)
			}
			way(c)
			c.release()
			if left := remaining(t, c.pool, "k"); left < 50*time.Minute || left > time.Hour {
				t.Errorf("%v left of a minimum hold of 1 h", left)
			}
		})
	}
}
