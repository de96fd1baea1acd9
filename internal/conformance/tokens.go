package conformance

import (
	"sync"
	"time"

	"github.com/pgcoord/pgcoord"
)

// tokenChecks prove S1 on a server that goes on running. S1 under concurrent
// faults is proved by historyChecks, and through crashes by crashChecks.
var tokenChecks = []check{
	{clause: "S1", name: "over_release", run: tokensOverRelease},
	{clause: "S1", name: "over_completion", when: func(s Strategy) bool { return !s.RemembersDone }, run: tokensOverCompletion},
	{clause: "S1", name: "over_takeover", run: tokensOverTakeover},
	{clause: "S1", name: "over_hand_over", when: excludes, run: tokensOverHandOver},
}

// growing fails the check when a token is not greater than all before.
type growing struct {
	w    *world
	last int64
}

func (g *growing) next(claim pgcoord.Claim, how string) {
	g.w.Helper()
	if claim.Token() <= g.last {
		g.w.Fatalf("token %d after %d, granted after %s", claim.Token(), g.last, how)
	}
	g.last = claim.Token()
}

func tokensOverRelease(w *world) {
	key, nodes := w.key("k"), []*node{w.node(setup{}), w.node(setup{})}
	g := growing{w: w}
	for i := range 10 {
		claim := nodes[i%2].try(key)
		g.next(claim, "release")
		w.release(claim)
	}
}

func tokensOverCompletion(w *world) {
	key, nodes := w.key("k"), []*node{w.node(setup{}), w.node(setup{})}
	g := growing{w: w}
	for i := range 10 {
		claim := nodes[i%2].try(key)
		g.next(claim, "completion")
		w.must(claim.Complete(w.ctx, nil), "Complete")
	}
}

func tokensOverTakeover(w *world) { // 15
	short := setup{ttl: 500 * time.Millisecond, idle: 500 * time.Millisecond, proxied: true}
	key, a, b := w.key("k"), w.node(short), w.node(short)
	g := growing{w: w}
	g.next(a.try(key), "nothing")
	g.next(w.takeOver(a, b, key), "takeover")
	last := w.takeOver(b, a, key)
	g.next(last, "takeover")
	w.release(last)
	g.next(b.acquire(key), "takeover and release")
}

// tokensOverHandOver has several waiters in each of two processes, so that keys
// pass inside a process and between them.
func tokensOverHandOver(w *world) {
	const waiters, rounds = 4, 5
	key, nodes := w.key("k"), []*node{w.node(setup{}), w.node(setup{})}
	var mu sync.Mutex
	g := growing{w: w}
	var done []<-chan error
	for i := range 2 * waiters {
		done = append(done, async(w, func() error {
			for range rounds {
				claim, err := nodes[i%2].Acquire(w.ctx, key)
				if err != nil {
					return err
				}
				mu.Lock()
				if claim.Token() <= g.last {
					w.Errorf("token %d after %d, handed over", claim.Token(), g.last)
				}
				g.last = claim.Token()
				mu.Unlock()
				if err := claim.Release(w.ctx); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, d := range done {
		w.must(soon(w, patience, d, "the waiters finish"), "wait, release")
	}
}
