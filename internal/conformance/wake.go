package conformance

import (
	"time"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// wakeChecks prove S14 of those who wait: no sleep that a wake-up could save.
var wakeChecks = []check{
	{clause: "S14", name: "release_wakes_another_node", when: excludes, run: func(w *world) { wakes(w, w.node(setup{})) }},
	{clause: "S14", name: "release_wakes_the_same_node", when: excludes, run: func(w *world) { wakes(w, nil) }},
	{clause: "S14", name: "release_wakes_another_process", when: excludes, run: wakesProcess},
	{clause: "S14", name: "free_key_is_not_waited_for", run: freeIsNotWaitedFor},
	{clause: "S14", name: "lost_notification", when: leases, run: lostNotification},
}

// prompt is well below any interval at which a waiter looks by itself, and a
// chain of waiters that only looked would take many of them.
const (
	prompt = 2 * time.Second
	chain  = 12
)

// wakes passes the key along a chain of waiters.
func wakes(w *world, other *node) {
	key, a := w.key("k"), w.node(setup{})
	if other == nil {
		other = a
	}
	claim := a.try(key)
	var done []<-chan error
	for i := range chain {
		n := []*node{a, other}[i%2]
		done = append(done, async(w, func() error {
			next, err := n.Acquire(w.ctx, key)
			if err != nil {
				return err
			}
			return next.Release(w.ctx)
		}))
	}
	w.sleepUnder(claim)
	w.release(claim)
	start := time.Now()
	for _, d := range done {
		w.must(soon(w, patience, d, "a waiter gets the key"), "Acquire, Release")
	}
	if took := time.Since(start); took > prompt {
		w.Fatalf("%d waiters took %v", chain, took)
	}
}

// wakesProcess passes the key to and fro between two processes.
func wakesProcess(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.child(setup{})
	claim := a.try(key)
	var took time.Duration
	for range chain / 2 {
		waiting := b.send(request{Op: opAcquire, Key: key})
		w.sleepUnder(claim)
		start := time.Now()
		w.release(claim)
		w.must(soon(w, patience, waiting, "the process gets the key").err(), "Acquire in a process")
		took += time.Since(start)
		back := async(w, func() error {
			next, err := a.Acquire(w.ctx, key)
			claim = next
			return err
		})
		b.mustDo(opAdd, key)
		start = time.Now()
		b.mustDo(opRelease, key)
		w.must(soon(w, patience, back, "the key comes back"), "Acquire")
		took += time.Since(start)
	}
	w.release(claim)
	if took > prompt {
		w.Fatalf("passing the key on %d times took %v", chain, took)
	}
}

func freeIsNotWaitedFor(w *world) {
	key, a := w.key("k"), w.node(setup{})
	w.release(a.try(key))
	start := time.Now()
	for range chain {
		w.release(a.acquire(key))
	}
	if took := time.Since(start); took > prompt {
		w.Fatalf("%d acquires of a free key took %v", chain, took)
	}
}

// lostNotification ends the connections of a waiting node, the one on which it
// listens too: the waiter still gets the key in time.
func lostNotification(w *world) { // 46, R4
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	w.release(b.try(key)) // what a node asks once, it has asked
	claim := a.try(key)
	waiting := async(w, func() error {
		next, err := b.Acquire(w.ctx, key)
		if err != nil {
			return err
		}
		return next.Release(w.ctx)
	})
	w.sleepUnder(claim)
	w.terminate(b)
	w.release(claim)
	w.must(soon(w, slack, waiting, "a waiter whose connections were ended gets the key"), "Acquire")
	pgtest.Eventually(w, slack, "the node works again", func() bool { return b.pool.Ping(w.ctx) == nil })
	w.release(a.acquireWithin(slack, key))
}
