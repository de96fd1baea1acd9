package statemachine

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/renewal"
	"github.com/pgcoord/pgcoord/internal/schema"
	"github.com/pgcoord/pgcoord/internal/statement"
	"github.com/pgcoord/pgcoord/internal/wakeup"
)

var (
	_ pgcoord.Coordinator = (*Coordinator)(nil)
	_ pgcoord.Resolver    = (*Coordinator)(nil)
	_ pgcoord.Claim       = (*Attempt)(nil)
)

// Coordinator grants claims on rows of the application's table: a claim moves its
// row from Ready to Working under a new token. It is safe for concurrent use.
//
// Beside the pool it keeps at most two connections: one for renewals and one that
// listens.
type Coordinator struct {
	m      *Machine
	step   Step
	opts   Options
	pool   *pgxpool.Pool
	run    *statement.Runner
	hub    *wakeup.Listener
	keeper *renewal.Keeper[*Attempt]
	lines  line.Lines[*request, *Attempt]
	calls  *calls.Calls
	// listened: notifications arrived at some time.
	listened atomic.Bool

	mu      sync.Mutex
	held    map[string]map[*Attempt]struct{} // the living attempts of this process, by key
	queries *queries
	shape   *shape
}

// New returns a Coordinator of opts.Step, on pool, whose database must have the
// schema of sql/migrations and the table of the machine. It sends nothing yet.
//
// It fails when a field of opts is missing or out of its range, or an edge that
// the step needs is not declared; the error names it.
//
// Close ends it; the pool stays the caller's.
func New(pool *pgxpool.Pool, opts Options) (*Coordinator, error) {
	opts = opts.withDefaults()
	if err := opts.check(pool); err != nil {
		return nil, fmt.Errorf("statemachine: new: %w", err)
	}
	c := &Coordinator{
		m: opts.Machine, step: opts.Step, opts: opts, pool: pool, run: statement.NewRunner(pool),
		calls: calls.New(), held: map[string]map[*Attempt]struct{}{},
	}
	c.hub = wakeup.New(pool, opts.Logger, c.notified, c.missed)
	at := func(a *Attempt) (time.Time, time.Duration) { return a.gate.RenewAt() }
	c.keeper = renewal.NewKeeper(opts.Logger, at, c.connect, c.renewAll)
	return c, nil
}

func (c *Coordinator) connect(ctx context.Context) (*pgx.Conn, error) {
	return ownconn.Connect(ctx, c.pool, nil)
}

// Resolve implements pgcoord.Resolver.
func (c *Coordinator) Resolve(ctx context.Context, key, id string) (pgcoord.Outcome, error) {
	if err := c.calls.Enter(); err != nil {
		return 0, describe("resolve operation of", key, err)
	}
	defer c.calls.Leave()
	_, _, err := c.ready(ctx, key)
	if err != nil {
		return 0, describe("resolve operation of", key, err)
	}
	return operation.Resolve(ctx, c.run, operation.ID{Domain: c.domain(), Key: key, Operation: id})
}

// domain is what the keys name, in pgcoord.operations.
func (c *Coordinator) domain() string { return c.m.operationDomain() }

// attemptTable is what claims rely on beside the application's table.
var attemptTable = schema.Table{
	Name: "attempts", Keys: []string{"machine", "key", "token"}, Tokens: "token",
	Times: []string{"expires_at", "ended_at", "retry_at"},
}

// ready checks key, and at the first call the ground that claims stand on. It
// returns the statements and the parts of the key.
func (c *Coordinator) ready(ctx context.Context, key string) (*queries, []any, error) {
	q, shape, err := c.prepared(ctx)
	if err != nil {
		return nil, nil, err
	}
	parts, err := shape.splitKey(key)
	if err != nil {
		return nil, nil, err
	}
	args := make([]any, len(parts))
	for i, part := range parts {
		args[i] = part
	}
	return q, args, nil
}

func (c *Coordinator) prepared(ctx context.Context) (*queries, *shape, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	q, s := c.queries, c.shape
	c.mu.Unlock()
	if q != nil {
		return q, s, nil
	}
	err := c.run.Do(ctx, func(ctx context.Context, conn *pgx.Conn, _ bool) (err error) {
		if err := schema.Check(ctx, conn, attemptTable); err != nil {
			return err
		}
		if err := c.m.check(ctx, conn); err != nil {
			return err
		}
		s, err = c.m.shapeIn(ctx, conn)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	q = c.m.queries(s)
	c.mu.Lock()
	c.queries, c.shape = q, s
	c.mu.Unlock()
	return q, s, nil
}

// Close ends the coordinator: it claims nothing more, lets open guarded
// transactions finish, releases its attempts and closes its own connections. Calls
// that wait fail with pgcoord.ErrClosed.
//
// It fails with the error of ctx when guarded work is still going on; attempts that
// it could not release are lost here, told by Lost, and end with their leases.
//
// A second Close waits for the first. The pool stays open.
func (c *Coordinator) Close(ctx context.Context) error {
	err := c.calls.Close(ctx, func(ctx context.Context) error {
		c.mu.Lock()
		attempts := c.living()
		c.mu.Unlock()
		err := releaseAll(ctx, attempts)
		c.keeper.Close()
		c.hub.Close()
		return err
	})
	if err != nil {
		return fmt.Errorf("statemachine: close: %w", err)
	}
	return nil
}

// living returns the living attempts; the caller has the lock.
func (c *Coordinator) living() []*Attempt {
	var all []*Attempt
	for _, attempts := range c.held {
		for a := range attempts {
			all = append(all, a)
		}
	}
	return all
}

// releaseAll releases attempts side by side, as far as ctx allows, and gives up
// those that it could not.
func releaseAll(ctx context.Context, attempts []*Attempt) error {
	const lanes = 8
	var group sync.WaitGroup
	turn := make(chan struct{}, lanes)
	errs := make([]error, len(attempts))
	for i, a := range attempts {
		turn <- struct{}{}
		group.Add(1)
		go func() {
			defer func() { <-turn; group.Done() }()
			err := a.Release(ctx)
			if err != nil && !errors.Is(err, pgcoord.ErrLost) {
				if !errors.Is(err, errNoWayBack) {
					errs[i] = err
				}
				_ = a.gate.Refuse(pgcoord.ErrClosed)
			}
			a.gate.Tell() // work that still goes on has lost its claim
		}()
	}
	group.Wait()
	return errors.Join(errs...)
}

// notified takes a notification: "look KEY", or "look " for new work.
func (c *Coordinator) notified(payload string) {
	if key, ok := strings.CutPrefix(payload, "look "); ok {
		c.lines.WakeFirst(key) // an empty one is the line for work
	}
}

// missed looks at everything that a notification may have been about.
func (c *Coordinator) missed() {
	c.lines.WakeAll()
	if c.listened.Swap(true) {
		c.keeper.Kick()
	}
}

func describe(op, key string, err error) error {
	return pgerr.Describe("statemachine: "+op, key, err)
}
