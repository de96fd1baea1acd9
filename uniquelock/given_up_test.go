package uniquelock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/faultproxy"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// TestEndNotReached: the call that ends a claim fails in an outage that is shorter
// than the TTL. Nobody may ever repeat it, so the key must not be kept by renewals.
func TestEndNotReached(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for name, end := range map[string]struct {
		cutAt func(faultproxy.Message) bool
		call  func(context.Context, *uniquelock.Lease) error
	}{
		"release": {onLocks, func(ctx context.Context, l *uniquelock.Lease) error {
			return l.Release(ctx)
		}},
		"complete": {onLocks, func(ctx context.Context, l *uniquelock.Lease) error {
			return l.Complete(ctx, nil)
		}},
		"complete with writes": {faultproxy.Message.Commit, func(ctx context.Context, l *uniquelock.Lease) error {
			return l.Complete(ctx, func(pgx.Tx) error { return nil })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 30*time.Second)
			dsn := pgtest.DSN(t)
			proxy := pgtest.Proxy(t, dsn)
			a := newCoordinator(t, pgtest.Pool(t, proxy.DSN(dsn)), uniquelock.Options{TTL: ttl})
			b := newCoordinator(t, pgtest.Pool(t, dsn), uniquelock.Options{})
			lease, err := a.TryLock(ctx, "k", uniquelock.LockOptions{})
			if err != nil {
				t.Fatal(err)
			}
			proxy.Refuse(true)
			proxy.AtNext(end.cutAt, faultproxy.DropAndCut)
			short, cancel := context.WithTimeout(ctx, ttl/10)
			defer cancel()
			if err := end.call(short, lease); err == nil {
				t.Fatal("the end was reached")
			}
			proxy.Refuse(false)
			if next, err := b.TryLock(ctx, "k", uniquelock.LockOptions{}); err == nil {
				t.Fatalf("free at once, under token %d", next.Token())
			}
			if _, err := b.Lock(within(t, 2*ttl), "k", uniquelock.LockOptions{}); err != nil {
				t.Errorf("after an end that was not reached: %v", err)
			}
		})
	}
}

// onLocks matches statements on the lock table: what the coordinator does beside, to
// listen for instance, is not meant.
func onLocks(m faultproxy.Message) bool {
	return m.Executes() && strings.Contains(m.SQL, "pgcoord.task_locks")
}
