package conformance

import (
	"fmt"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// The WAL writer hardly ever runs on this server, so that what nobody waited for
// to be written is lost in a crash.
var crashServer = map[string]string{"wal_writer_delay": "10s", "fsync": "on"}

// crashChecks restart the server under claims.
var crashChecks = []check{
	{clause: "S1", name: "through_crash_and_restart", run: throughCrash, server: crashServer},
	{clause: "S2", name: "claim_survives_restart", when: leases, run: claimSurvivesRestart, server: crashServer},
}

var modes = []localpg.Mode{localpg.Kill, localpg.Immediate, localpg.Fast, localpg.Kill}

// throughCrash proves S1, and that what was completed stays so, for a role that
// does not wait for the disk by default.
func throughCrash(w *world) {
	w.alterDatabase("synchronous_commit", "off")
	var keys []string
	for i := range 6 {
		keys = append(keys, w.key(fmt.Sprint("k", i)))
	}
	seen := map[string]int64{}
	for _, mode := range modes {
		done := w.key("done " + fmt.Sprint(len(seen), mode, w.nodes))
		gone := w.beforeCrash(keys, done, seen)
		gone.proxy.Refuse(true) // its process goes down with the server
		w.must(w.server.Restart(w.ctx, mode), "restart")
		w.afterCrash(mode, keys, done, seen)
	}
}

// beforeCrash claims each key, releases half of them, and completes done.
func (w *world) beforeCrash(keys []string, done string, seen map[string]int64) *node {
	w.Helper()
	n := w.node(setup{ttl: slack / 4, idle: slack / 4, proxied: true})
	for i, key := range keys {
		claim := n.acquire(key)
		if claim.Token() <= seen[key] {
			w.Fatalf("token %d after %d before the crash", claim.Token(), seen[key])
		}
		if i%2 == 0 {
			w.release(claim)
		}
		if i%2 == 0 || w.strategy.TokenAtGrant {
			seen[key] = claim.Token()
		}
	}
	w.must(n.try(done).Complete(w.ctx, nil), "Complete")
	// The last things before the crash are more grants than the sequence logs ahead,
	// with no other commit that would bring them to the disk.
	const ahead = 40
	for range ahead {
		w.release(n.acquire(keys[0]))
	}
	if claim := n.acquire(keys[0]); w.strategy.TokenAtGrant {
		seen[keys[0]] = claim.Token()
	}
	return n
}

func (w *world) afterCrash(mode localpg.Mode, keys []string, done string, seen map[string]int64) {
	w.reconnected()
	n := w.node(setup{ttl: slack / 4, idle: slack / 4})
	for _, key := range keys {
		claim := n.acquireWithin(2*slack, key) // S6: it may look held until its TTL
		if claim.Token() <= seen[key] {
			w.Fatalf("token %d after %d, through a restart (%v)", claim.Token(), seen[key], mode)
		}
		seen[key] = claim.Token()
		w.release(claim)
	}
	if w.strategy.RemembersDone {
		_, err := n.TryAcquire(w.ctx, done)
		w.wants(err, pgcoord.ErrDone, "TryAcquire of a key that was completed before a restart")
	}
}

// reconnected waits until the observer's pool has noticed the restart.
func (w *world) reconnected() {
	pgtest.Eventually(w, slack, "the observer is connected again", func() bool {
		return w.admin.Ping(w.ctx) == nil
	})
}

func claimSurvivesRestart(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	claim := a.try(key)
	w.add(claim)
	for _, mode := range []localpg.Mode{localpg.Fast, localpg.Kill} {
		w.must(w.server.Restart(w.ctx, mode), "restart")
		w.reconnected()
		pgtest.Eventually(w, slack, "the other node is connected again", func() bool {
			return b.pool.Ping(w.ctx) == nil
		})
		b.held(key)
	}
	pgtest.Eventually(w, slack, "the claim works after restarts", func() bool {
		return claim.BeginFunc(w.ctx, counting(w.ctx, claim)) == nil
	})
	w.release(claim)
	w.audit(key, 2)
}
