package uniquelock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// chain is a key that passes from claim to claim.
type chain struct {
	t     *testing.T
	ctx   context.Context
	pool  *pgxpool.Pool
	a, b  *uniquelock.Coordinator
	lease *uniquelock.Lease // of a; nil where the key is free
}

func newChain(t *testing.T) *chain {
	t.Helper()
	pool := newPool(t)
	return &chain{
		t: t, ctx: within(t, 30*time.Second), pool: pool,
		a: newCoordinator(t, pool, uniquelock.Options{}), b: newCoordinator(t, pool, uniquelock.Options{}),
	}
}

func (c *chain) release() {
	c.t.Helper()
	if c.lease == nil {
		return
	}
	if err := c.lease.Release(c.ctx); err != nil {
		c.t.Fatal(err)
	}
	c.lease = nil
}

func (c *chain) grant() int64 {
	c.t.Helper()
	c.release()
	c.lease = tryLock(c.t, c.a, "k", uniquelock.LockOptions{})
	return c.lease.Token()
}

// releaseTo releases the key to whoever waits for it.
func (c *chain) releaseTo(next <-chan result) int64 {
	c.t.Helper()
	c.release()
	r := <-next
	if r.err != nil {
		c.t.Fatal(r.err)
	}
	c.lease = r.lease
	return r.lease.Token()
}

func (c *chain) handOver() int64 {
	c.t.Helper()
	next := async(c.ctx, c.a, "k")
	pgtest.Eventually(c.t, 5*time.Second, "a waiter is in line", func() bool { return uniquelock.Waiting(c.a, "k") == 1 })
	return c.releaseTo(next)
}

func (c *chain) pass() int64 {
	c.t.Helper()
	next := async(c.ctx, c.b, "k")
	pgtest.Eventually(c.t, 5*time.Second, "another process waits", func() bool { return waiting(c.t, c.pool, "k") == 1 })
	c.a, c.b = c.b, c.a
	return c.releaseTo(next)
}

func (c *chain) oneTransaction() int64 {
	c.t.Helper()
	c.release()
	if err := c.a.TryDoTx(c.ctx, "k", nil); err != nil {
		c.t.Fatal(err)
	}
	return scan[int64](c.t, c.pool, "SELECT token FROM pgcoord.task_locks WHERE task_name = 'k'")
}

// ways are those in which the next claim on a key comes about.
var ways = map[string]func(*chain) int64{
	"grant": (*chain).grant, "hand-over": (*chain).handOver, "pass": (*chain).pass, "one transaction": (*chain).oneTransaction,
}

// A token exceeds that in the row, also where the sequence is behind, as after a
// restore that nobody has repaired.
func TestTokensExceedTheRow(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t)
			const old = 7<<40 + 5000
			exec(t, c.pool, "INSERT INTO pgcoord.task_locks (task_name, token) VALUES ('k', $1)", old)
			last := c.grant()
			if last <= old {
				t.Fatalf("token %d, the row has %d", last, old)
			}
			if token := way(c); token <= last {
				t.Errorf("token %d after %d", token, last)
			}
		})
	}
}

// Every token is drawn from the sequence: the one of a new row exceeds all that
// were given before the old row was pruned.
func TestTokensExceedDeletedRows(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChain(t)
			last := c.grant()
			for range 3 {
				last = way(c)
			}
			c.release()
			exec(t, c.pool, "DELETE FROM pgcoord.task_locks")
			if token := c.grant(); token <= last {
				t.Errorf("token %d after %d", token, last)
			}
		})
	}
}

// A sequence without numbers grants nothing, and what was granted stands.
func TestUsedUpSequence(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	c.grant()
	exec(t, c.pool, "SELECT setval('pgcoord.fencing_token_seq', $1)", int64(1)<<40-1)
	_, err := c.b.TryAcquire(c.ctx, "another")
	if err == nil || errors.Is(err, pgcoord.ErrHeld) || !strings.Contains(err.Error(), "docs/operations.md") {
		t.Errorf("try: %v, want an error that names the cure", err)
	}
	if err := c.lease.BeginFunc(c.ctx, nil); err != nil {
		t.Errorf("a claim that was granted before: %v", err)
	}
	c.release()
}
