package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/faultproxy"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// setup says how a check wants a node.
type setup struct {
	ttl, idle time.Duration // long when 0
	conns     int32         // pgxpool's default when 0
	proxied   bool          // its connections go through a proxy
	holder    string        // the node's name when empty
	params    map[string]string
}

func (o setup) tuning(name string) Tuning {
	return Tuning{Holder: cmp.Or(o.holder, name), TTL: cmp.Or(o.ttl, long), IdleLimit: cmp.Or(o.idle, long)}
}

// node is one process of a service, as far as the database can tell: a pool and
// a coordinator of its own.
type node struct {
	Coordinator
	w     *world
	name  string
	pool  *pgxpool.Pool
	proxy *faultproxy.Proxy
}

// node starts a node. At the end of the check it is closed, which must succeed.
func (w *world) node(o setup) *node {
	w.Helper()
	w.nodes++
	n := &node{w: w, name: fmt.Sprintf("%s node %d", w.name, w.nodes)}
	dsn := w.dsn
	if o.proxied {
		n.proxy = pgtest.Proxy(w, w.dsn)
		dsn = n.proxy.DSN(dsn)
	}
	n.pool = pgtest.Pool(w, dsn, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = n.name
		for name, value := range o.params {
			c.ConnConfig.RuntimeParams[name] = value
		}
		if o.conns > 0 {
			c.MaxConns = o.conns
		}
	})
	c, err := w.strategy.New(n.pool, o.tuning(n.name))
	w.must(err, "New")
	n.Coordinator = c
	w.Cleanup(n.stop)
	return n
}

// stop closes the coordinator, whatever the check has done to it, and proves that
// it has given back the pool's connections.
func (n *node) stop() {
	if n.proxy != nil {
		n.proxy.OnClientMessage(nil)
		n.proxy.Refuse(false)
		n.proxy.Thaw()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		n.w.Errorf("Close of %s: %v", n.name, err)
	}
	// The pool ends broken connections in the background.
	pgtest.Eventually(n.w, slack, n.name+" has given all connections back to the pool", func() bool {
		return n.pool.Stat().AcquiredConns() == 0
	})
}

// try claims key at once.
func (n *node) try(key string) pgcoord.Claim {
	n.w.Helper()
	claim, err := n.TryAcquire(n.w.ctx, key)
	n.w.must(err, n.name+" TryAcquire "+key)
	n.owns(claim, key)
	return claim
}

// acquire waits for key.
func (n *node) acquire(key string) pgcoord.Claim {
	n.w.Helper()
	return n.acquireWithin(patience, key)
}

func (n *node) acquireWithin(d time.Duration, key string) pgcoord.Claim {
	n.w.Helper()
	claim, err := n.Acquire(n.w.within(d), key)
	n.w.must(err, fmt.Sprintf("%s Acquire %s within %v", n.name, key, d))
	n.owns(claim, key)
	return claim
}

func (n *node) owns(claim pgcoord.Claim, key string) {
	n.w.Helper()
	same(n.w, claim.Key(), key, "Claim.Key")
	if claim.Token() <= 0 {
		n.w.Fatalf("token %d is not positive", claim.Token())
	}
}

// held proves that another's claim keeps this node from key.
func (n *node) held(key string) {
	n.w.Helper()
	_, err := n.TryAcquire(n.w.ctx, key)
	n.w.wants(err, pgcoord.ErrHeld, n.name+" TryAcquire of a key that is held")
}

// heldFor proves for a while that others' claims keep this node from the keys.
func (n *node) heldFor(d time.Duration, keys ...string) {
	n.w.Helper()
	often := time.NewTicker(10 * time.Millisecond)
	defer often.Stop()
	for over := time.After(d); ; {
		for _, key := range keys {
			n.held(key)
		}
		select {
		case <-over:
			return
		case <-often.C:
		}
	}
}

// release ends the claim.
func (w *world) release(claim pgcoord.Claim) {
	w.Helper()
	w.must(claim.Release(w.ctx), "Release")
}

// occupy takes key on n and keeps every other claim away from it until free is
// called. Where the newest claim wins, an open guarded transaction does that.
func (w *world) occupy(n *node, key string) (claim pgcoord.Claim, free func()) {
	w.Helper()
	claim = n.try(key)
	if !w.strategy.Supersedes {
		return claim, func() { w.Helper(); w.release(claim) }
	}
	end := w.begin(w.ctx, claim, func(pgx.Tx) error { return nil })
	return claim, func() {
		w.Helper()
		w.must(end(nil), "end of the guarded transaction")
		w.release(claim)
	}
}

// takeOver lets by have the key that from has claimed: from is cut off until by
// has it. The node from must be proxied and have a short TTL and idle limit.
func (w *world) takeOver(from, by *node, key string) pgcoord.Claim {
	w.Helper()
	if w.strategy.Supersedes {
		return by.acquire(key)
	}
	from.proxy.Freeze()
	defer from.proxy.Thaw()
	return by.acquire(key)
}

var errWork = errors.New("the work failed")
