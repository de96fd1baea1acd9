package uniquelock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/calls"
	"github.com/pgcoord/pgcoord/internal/line"
	"github.com/pgcoord/pgcoord/internal/operation"
	"github.com/pgcoord/pgcoord/internal/ownconn"
	"github.com/pgcoord/pgcoord/internal/renewal"
	"github.com/pgcoord/pgcoord/internal/statement"
	"github.com/pgcoord/pgcoord/internal/wakeup"
)

// domain is what the keys name, in pgcoord.operations.
const domain = "task_locks"

var (
	_ pgcoord.Coordinator = (*Coordinator)(nil)
	_ pgcoord.Resolver    = (*Coordinator)(nil)
	_ pgcoord.Claim       = (*Lease)(nil)
)

// Coordinator grants claims on keys as leases in the table pgcoord.task_locks.
// It is safe for concurrent use; a process needs one for each database.
//
// Beside the pool it keeps at most two connections: one for renewals, from the
// first renewal on, and one that listens, from the first claim or wait on.
type Coordinator struct {
	pool   *pgxpool.Pool
	opts   Options
	run    *statement.Runner
	hub    *wakeup.Listener
	keeper *renewal.Keeper[*Lease]
	lines  line.Lines[*request, delivery]
	ground ground
	calls  *calls.Calls
	// listened: notifications arrived at some time.
	listened atomic.Bool

	mu    sync.Mutex
	held  map[string]map[*Lease]struct{} // the living leases of this process, by key
	slots map[string]*slot               // by key: this process's place among others
}

// New returns a Coordinator that works on pool, whose database must have the
// schema of sql/migrations. It sends nothing yet.
//
// It fails when pool is nil or a field of opts is out of its range, which the
// error names.
//
// Close ends it; the pool stays the caller's.
func New(pool *pgxpool.Pool, opts Options) (*Coordinator, error) {
	opts = opts.withDefaults()
	if err := opts.check(pool); err != nil {
		return nil, fmt.Errorf("uniquelock: new: %w", err)
	}
	c := &Coordinator{
		pool: pool, opts: opts, run: statement.NewRunner(pool),
		held: map[string]map[*Lease]struct{}{}, slots: map[string]*slot{}, calls: calls.New(),
	}
	c.hub = wakeup.New(pool, opts.Logger, c.notified, c.missed)
	c.keeper = renewal.NewKeeper(opts.Logger, func(l *Lease) (time.Time, time.Duration) { return l.gate.RenewAt() }, c.connect, c.renewAll)
	return c, nil
}

// TryAcquire implements pgcoord.Coordinator: TryLock with the options of the
// Coordinator.
func (c *Coordinator) TryAcquire(ctx context.Context, key string) (pgcoord.Claim, error) {
	lease, err := c.TryLock(ctx, key, LockOptions{})
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// Acquire implements pgcoord.Coordinator: Lock with the options of the
// Coordinator.
func (c *Coordinator) Acquire(ctx context.Context, key string) (pgcoord.Claim, error) {
	lease, err := c.Lock(ctx, key, LockOptions{})
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// Resolve implements pgcoord.Resolver, for operations on keys of this package.
func (c *Coordinator) Resolve(ctx context.Context, key, id string) (pgcoord.Outcome, error) {
	if err := c.calls.Enter(); err != nil {
		return 0, describe("resolve operation of", key, err)
	}
	defer c.calls.Leave()
	return operation.Resolve(ctx, c.run, operation.ID{Domain: domain, Key: key, Operation: id})
}

func (c *Coordinator) connect(ctx context.Context) (*pgx.Conn, error) {
	return ownconn.Connect(ctx, c.pool, nil)
}
