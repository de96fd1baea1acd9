package conformance

import (
	"time"

	"github.com/pgcoord/pgcoord"
)

// processChecks stop and kill real processes.
var processChecks = []check{
	{clause: "S3", name: "stopped_before_guard", run: stoppedBeforeGuard},
	{clause: "S3", name: "stopped_inside_guard", run: stoppedInsideGuard},
	{clause: "S12", name: "killed_holder", when: excludes, run: killedHolder},
	{clause: "S12", name: "killed_inside_guard", run: killedInsideGuard},
	{clause: "S12", name: "killed_waiter", when: excludes, run: func(w *world) { deadWaiter(w, (*child).kill) }},
	{clause: "S12", name: "stopped_waiter", when: excludes, run: func(w *world) { deadWaiter(w, (*child).stop) }},
}

// brief is the TTL and the idle limit of claims that are to be taken over, and
// bound what the contract allows the key to stay blocked, and some room.
const (
	brief = 700 * time.Millisecond
	bound = brief + slack
)

func stoppedBeforeGuard(w *world) { // 35
	key, a, b := w.key("k"), w.child(setup{ttl: brief, idle: brief}), w.node(setup{})
	old := a.mustDo(opTry, key)
	a.stop()
	claim := b.acquireWithin(bound, key)
	if claim.Token() <= old.Token {
		w.Fatalf("token %d after %d", claim.Token(), old.Token)
	}
	w.add(claim)
	a.resume()
	w.wants(a.do(opAdd, key).err(), pgcoord.ErrLost, "guarded transaction of the process that was stopped")
	w.wants(a.do(opComplete, key).err(), pgcoord.ErrLost, "Complete of the process that was stopped")
	w.wants(a.do(opRelease, key).err(), pgcoord.ErrLost, "Release of the process that was stopped")
	w.must(soon(w, bound, a.send(request{Op: opLost, Key: key}), "Lost closes").err(), "Lost")
	w.usable(claim)
	w.release(claim)
	w.audit(key, 2)
}

func stoppedInsideGuard(w *world) { // 35
	key, a, b := w.key("k"), w.child(setup{ttl: brief, idle: brief}), w.node(setup{})
	a.mustDo(opTry, key)
	a.mustDo(opBegin, key)
	a.mustDo(opCount, key)
	a.stop()
	claim := b.acquireWithin(bound, key)
	w.add(claim)
	a.resume()
	w.refused(a.do(opEnd, key).err(), "commit of the process that was stopped")
	w.wants(a.do(opAdd, key).err(), pgcoord.ErrLost, "guarded transaction of the process that was stopped")
	w.usable(claim)
	w.release(claim)
	w.audit(key, 2)
}

func killedHolder(w *world) {
	key, a, b := w.key("k"), w.child(setup{ttl: brief, idle: brief}), w.node(setup{})
	a.mustDo(opTry, key)
	a.mustDo(opAdd, key)
	a.kill()
	claim := b.acquireWithin(bound, key)
	w.add(claim)
	w.release(claim)
	want := int64(2)
	if !w.strategy.DurableGuards {
		want = 1
	}
	w.audit(key, want)
}

func killedInsideGuard(w *world) {
	key, a, b := w.key("k"), w.child(setup{ttl: brief, idle: brief}), w.node(setup{})
	a.mustDo(opTry, key)
	a.mustDo(opBegin, key)
	a.mustDo(opCount, key)
	a.kill()
	claim := b.acquireWithin(bound, key)
	w.add(claim)
	w.release(claim)
	w.audit(key, 1)
}

// deadWaiter has a process die, or stop, at the head of the waiters: the one
// behind it still gets the key.
func deadWaiter(w *world, end func(*child)) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	dead := w.child(setup{ttl: brief, idle: brief})
	claim := a.try(key)
	dead.send(request{Op: opAcquire, Key: key})
	dead.mustDo(opTry, w.key("asked for later"))
	w.sleepUnder(claim)
	end(dead)
	waiting := async(w, func() error {
		next, err := b.Acquire(w.ctx, key)
		if err != nil {
			return err
		}
		return next.Release(w.ctx)
	})
	w.release(claim)
	w.must(soon(w, bound, waiting, "the waiter behind a dead one gets the key"), "Acquire")
}
