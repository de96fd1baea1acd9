package uniquelock_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// lazy is a server that writes to the disk when it must, and by default commits
// without.
var lazy = map[string]string{
	"synchronous_commit": "off", "wal_writer_delay": "10s", "fsync": "off",
	"autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0",
}

// What a crash must not undo is on its way to the disk when the call returns, for
// a role that does not wait for that by default.
func TestDurable(t *testing.T) {
	t.Parallel()
	ctx := within(t, time.Minute)
	pool := pgtest.Pool(t, pgtest.DSNOn(t, pgtest.Dedicated(t, localpg.Options{Settings: lazy})))
	exec(t, pool, "CREATE TABLE effects (n int)")
	a, b := newCoordinator(t, pool, uniquelock.Options{TTL: time.Hour}), newCoordinator(t, pool, uniquelock.Options{TTL: time.Hour})
	effect := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES (1)")
		return err
	}
	lock := func(key string) *uniquelock.Lease { return tryLock(t, a, key, uniquelock.LockOptions{}) }
	for _, verb := range []struct {
		name string
		// prepare returns the call.
		prepare func(key string) func() error
	}{
		{"grant", func(key string) func() error {
			return func() error { return second(a.TryLock(ctx, key, uniquelock.LockOptions{})) }
		}},
		{"renewal", func(key string) func() error {
			lease := lock(key)
			return func() error { return lease.Renew(ctx) }
		}},
		{"guard", func(key string) func() error {
			lease := lock(key)
			return func() error { return lease.BeginFunc(ctx, effect) }
		}},
		{"hand-over", func(key string) func() error {
			lease := lock(key)
			async(ctx, a, key)
			pgtest.Eventually(t, 5*time.Second, "a waiter is in line", func() bool { return uniquelock.Waiting(a, key) == 1 })
			return func() error { return lease.Release(ctx) }
		}},
		{"pass", func(key string) func() error { // to one who does not hear of it
			lease := lock(key)
			exec(t, pool, `INSERT INTO pgcoord.task_waiters (task_name, slot_id, channel, holder, deadline)
				VALUES ($1, 'slot:deaf', 'nobody_listens', 'deaf', clock_timestamp() + interval '1 minute')`, key)
			exec(t, pool, "UPDATE pgcoord.task_locks SET waiters = true WHERE task_name = $1", key)
			return func() error { return lease.Release(ctx) }
		}},
		{"adoption", func(key string) func() error {
			shared := pgcoord.WithGrantID(ctx, "shared")
			if _, err := a.TryAcquire(shared, key); err != nil {
				t.Fatal(err)
			}
			return func() error { return second(b.TryAcquire(shared, key)) }
		}},
		{"completion", func(key string) func() error {
			lease := lock(key)
			return func() error { return lease.Complete(ctx, nil) }
		}},
		{"completion with work", func(key string) func() error {
			lease := lock(key)
			return func() error { return lease.Complete(ctx, effect) }
		}},
		{"one transaction", func(key string) func() error {
			return func() error { return a.TryDoTx(ctx, key, effect) }
		}},
		{"break", func(key string) func() error {
			lock(key)
			return func() error { return b.Break(ctx, key, "test") }
		}},
		{"resolve", func(key string) func() error {
			return func() error { return second(a.Resolve(ctx, key, "never applied")) }
		}},
	} {
		t.Run(verb.name, func(t *testing.T) {
			call := verb.prepare(verb.name)
			if err := call(); err != nil {
				t.Fatal(err)
			}
			if late := scan[int64](t, pool, "SELECT (pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn())::bigint"); late > 0 {
				t.Errorf("the last %d bytes of the log are in memory only", late)
			}
		})
	}
}
