package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
)

// exclusionChecks prove S2, S3 and S4 with many at once and no faults.
var exclusionChecks = []check{
	{clause: "S2", name: "one_winner", when: excludes, run: oneWinner},
	{clause: "S3", name: "goroutines", run: goroutines},
	{clause: "S3", name: "processes", run: processes},
	{clause: "S2", name: "serializable_by_default", when: excludes, own: true, run: func(w *world) { otherIsolation(w, "serializable") }},
	{clause: "S2", name: "repeatable_read_by_default", when: excludes, own: true, run: func(w *world) { otherIsolation(w, "repeatable read") }},
}

func oneWinner(w *world) {
	nodes := []*node{w.node(setup{}), w.node(setup{}), w.node(setup{})}
	for round := range 5 {
		w.race(nodes, w.key(fmt.Sprint("k", round)))
	}
}

// race has all nodes try key at once from several goroutines: one gets it, and
// all others are told that it is held.
func (w *world) race(nodes []*node, key string) {
	w.Helper()
	const each = 4
	var mu sync.Mutex
	var winners []pgcoord.Claim
	var over sync.WaitGroup
	start := make(chan struct{})
	for _, n := range nodes {
		for range each {
			over.Go(func() {
				<-start
				claim, err := n.TryAcquire(w.ctx, key)
				switch {
				case err == nil:
					mu.Lock()
					winners = append(winners, claim)
					mu.Unlock()
				case !errors.Is(err, pgcoord.ErrHeld):
					w.Errorf("TryAcquire in a race: %v", err)
				}
			})
		}
	}
	close(start)
	over.Wait()
	same(w, len(winners), 1, "winners of "+key)
	w.usable(winners[0])
	w.release(winners[0])
}

// alterDatabase changes a default for every connection made from now on.
func (w *world) alterDatabase(setting, value string) {
	w.Helper()
	config := w.admin.Config().ConnConfig
	w.exec("ALTER DATABASE " + pgx.Identifier{config.Database}.Sanitize() + " SET " + setting + " = '" + value + "'")
}

func otherIsolation(w *world, level string) { // 05
	w.alterDatabase("default_transaction_isolation", level)
	nodes := []*node{w.node(setup{}), w.node(setup{})}
	for round := range 3 {
		w.race(nodes, w.key(fmt.Sprint("k", round)))
	}
	w.countTogether(nodes, w.key("counted"), 3, 4)
}

func goroutines(w *world) {
	w.countTogether([]*node{w.node(setup{}), w.node(setup{}), w.node(setup{})}, w.key("k"), 4, 5)
}

// countTogether has goroutines of all nodes count key times times each.
func (w *world) countTogether(nodes []*node, key string, goroutines, times int) {
	w.Helper()
	var done []<-chan error
	for _, n := range nodes {
		for range goroutines {
			done = append(done, async(w, func() error {
				return increments(w.ctx, n, key, times, w.strategy.Supersedes)
			}))
		}
	}
	for _, d := range done {
		w.must(soon(w, patience, d, "the counting ends"), "count")
	}
	w.audit(key, int64(len(done)*times))
}

func processes(w *world) {
	const times = 15
	key := w.key("k")
	var done []<-chan reply
	for range 3 {
		done = append(done, w.child(setup{}).send(request{Op: opIncrements, Key: key, Times: times}))
	}
	for _, d := range done {
		w.must(soon(w, patience, d, "the process has counted").err(), "count in another process")
	}
	w.audit(key, int64(len(done)*times))
}

// increments counts key times times, in claims of two guarded transactions.
// Where the newest claim wins, one that has lost begins again.
func increments(ctx context.Context, c pgcoord.Coordinator, key string, times int, supersedes bool) error {
	for n := 0; n < times; {
		claim, err := c.Acquire(ctx, key)
		if err != nil {
			return err
		}
		for i := 0; i < 2 && n < times && err == nil; i++ {
			if err = claim.BeginFunc(ctx, counting(ctx, claim)); err == nil {
				n++
			}
		}
		if err == nil {
			err = claim.Release(ctx)
		}
		if err != nil && !(supersedes && errors.Is(err, pgcoord.ErrLost)) {
			return err
		}
	}
	return nil
}
