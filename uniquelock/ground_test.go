package uniquelock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// Case 38: nothing is granted on bad ground, in no form, and nobody waits for it.
func TestBadGround(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ sql, cure string }{
		"cache":          {"ALTER SEQUENCE pgcoord.fencing_token_seq CACHE 20", "CACHE 1"},
		"cycle":          {"ALTER SEQUENCE pgcoord.fencing_token_seq CYCLE", "NO CYCLE"},
		"integer":        {"ALTER SEQUENCE pgcoord.fencing_token_seq AS integer MAXVALUE 2147483647", "AS bigint"},
		"increment":      {"ALTER SEQUENCE pgcoord.fencing_token_seq INCREMENT 2", "INCREMENT 1"},
		"maximum":        {"ALTER SEQUENCE pgcoord.fencing_token_seq NO MAXVALUE", "MAXVALUE 1099511627775"},
		"unlogged":       {"ALTER TABLE pgcoord.task_locks SET UNLOGGED", "SET LOGGED"},
		"no key":         {"ALTER TABLE pgcoord.task_locks DROP CONSTRAINT task_locks_pkey", "ADD PRIMARY KEY"},
		"timestamp":      {"DROP VIEW pgcoord.held; ALTER TABLE pgcoord.task_locks ALTER expires_at TYPE timestamp", "timestamptz"},
		"no cluster row": {"DELETE FROM pgcoord.cluster", "pgcoord.cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, 20*time.Second)
			pool := newPool(t)
			for sql := range strings.SplitSeq(tt.sql, ";") {
				exec(t, pool, sql)
			}
			for verb, call := range map[string]func(*uniquelock.Coordinator) error{
				"TryDoTx": func(c *uniquelock.Coordinator) error {
					return c.TryDoTx(ctx, "tried", func(pgx.Tx) error { t.Error("the work ran"); return nil })
				},
				"DoTx": func(c *uniquelock.Coordinator) error {
					return c.DoTx(ctx, "waited for", func(pgx.Tx) error { t.Error("the work ran"); return nil })
				},
				"TryLock": func(c *uniquelock.Coordinator) error {
					return second(c.TryLock(ctx, "leased", uniquelock.LockOptions{}))
				},
			} {
				err := call(newCoordinator(t, pool, uniquelock.Options{}))
				if err == nil || errors.Is(err, pgcoord.ErrHeld) || !strings.Contains(err.Error(), tt.cure) {
					t.Errorf("%s: %v, want an error that names the cure %q", verb, err, tt.cure)
				}
			}
		})
	}
}

// A break during an outage of the listener is heard of when that is over, long
// before the next renewal.
func TestBreakDuringAnOutage(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, 1)
	listening := func() int {
		return scan[int](t, f.pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	}
	lease := tryLock(t, f.c, "k", uniquelock.LockOptions{})
	pgtest.Eventually(t, 5*time.Second, "the holder listens", func() bool { return listening() == 1 })
	f.proxy.Refuse(true)
	f.proxy.Reset()
	pgtest.Eventually(t, 5*time.Second, "the holder does not listen", func() bool { return listening() == 0 })
	if err := newCoordinator(t, f.pool, uniquelock.Options{}).Break(f.ctx, "k", "test"); err != nil {
		t.Fatal(err)
	}
	f.proxy.Refuse(false)
	select {
	case <-lease.Lost():
	case <-time.After(10 * time.Second):
		t.Error("the holder was not told")
	}
}
