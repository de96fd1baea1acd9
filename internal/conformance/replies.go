package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/faultproxy"
)

// replyChecks cut the connection at each statement of a call in turn, before the
// server has seen it and after it has answered.
var replyChecks = []check{
	{clause: "S6", name: "acquire_cut_at_each_step", run: acquireCut},
	{clause: "S6", name: "guarded_transaction_cut_at_each_step", when: durableGuards, run: func(w *world) { commitCut(w, pgcoord.Claim.BeginFunc) }},
	{clause: "S6", name: "complete_cut_at_each_step", run: func(w *world) { commitCut(w, pgcoord.Claim.Complete) }},
	{clause: "S6", name: "release_cut_at_each_step", when: durableGuards, run: releaseCut},
	{clause: "S6", name: "frozen_waiter_repeats", when: excludes, run: frozenWaiterRepeats},
	{clause: "S12", name: "frozen_waiter", when: excludes, run: frozenWaiter},
}

// step is one statement of a call at which its connection is cut.
type step struct {
	n      *node
	number int64
	action faultproxy.Action
	met    atomic.Bool
}

// during runs the call, and cuts.
func (s *step) during(call func()) {
	var seen atomic.Int64
	s.n.proxy.OnClientMessage(func(m faultproxy.Message) faultproxy.Action {
		if !m.Executes() || seen.Add(1) != s.number {
			return faultproxy.Forward
		}
		s.met.Store(true)
		return s.action
	})
	defer s.n.proxy.OnClientMessage(nil)
	call()
}

// atEachStep has do make the same call, each time on a new key, until it has been
// cut at each of its statements.
func (w *world) atEachStep(n *node, do func(s *step, key string)) {
	w.Helper()
	const most = 20
	w.release(n.try(w.key("warm up")))
	for _, action := range []faultproxy.Action{faultproxy.ForwardThenCut, faultproxy.DropAndCut} {
		for number := int64(1); ; number++ {
			s := &step{n: n, number: number, action: action}
			do(s, w.key(fmt.Sprintf("k %d %d", action, number)))
			if !s.met.Load() {
				if number == 1 {
					w.Fatal("the call has sent no statement")
				}
				break
			}
			if number == most {
				w.Fatalf("the call still goes on after it was cut at statement %d", number)
			}
		}
	}
}

func acquireCut(w *world) { // 53
	a, b := w.node(setup{ttl: patience, proxied: true}), w.node(setup{})
	w.atEachStep(a, func(s *step, key string) {
		ctx := pgcoord.WithGrantID(w.ctx, "grant of "+key)
		var claim pgcoord.Claim
		var err error
		s.during(func() { claim, err = a.TryAcquire(ctx, key) })
		if err != nil {
			// The caller's own repetition gets what the first attempt has won.
			claim, err = a.Acquire(ctx, key)
			w.must(err, "Acquire again under the same grant id")
		}
		w.usable(claim)
		if !w.strategy.Supersedes {
			b.held(key)
		}
		w.release(claim)
		w.release(b.try(key))
		w.audit(key, 1)
	})
}

// commitCut proves that each of the three answers is true.
func commitCut(w *world, call func(pgcoord.Claim, context.Context, func(pgx.Tx) error) error) {
	a := w.node(setup{proxied: true})
	w.atEachStep(a, func(s *step, key string) {
		claim := a.try(key)
		var err error
		s.during(func() { err = call(claim, operation(w, "op"), counting(w.ctx, claim)) })
		outcome := pgcoord.Applied
		if errors.Is(err, pgcoord.ErrOutcomeUnknown) {
			outcome, err = a.Resolve(w.ctx, key, "op")
			w.must(err, "Resolve")
		} else if err != nil {
			outcome = pgcoord.NotApplied
		}
		w.audit(key, int64(outcome))
		_ = claim.Release(w.ctx) // the claim may stand or not
	})
}

func releaseCut(w *world) {
	a, b := w.node(setup{ttl: patience, proxied: true}), w.node(setup{})
	w.atEachStep(a, func(s *step, key string) {
		claim := a.try(key)
		w.add(claim)
		var err error
		s.during(func() { err = claim.Release(w.ctx) })
		if err != nil {
			w.must(claim.Release(w.ctx), "Release again")
		}
		next := b.try(key) // a nil Release means free now
		w.must(claim.Release(w.ctx), "Release again, under the next claim")
		w.usable(next)
		w.release(next)
		w.audit(key, 2)
	})
}

// freezeWaiter has a node wait for key, cuts it off, ends its call and frees the
// key, which may go to the one that cannot hear of it.
func (w *world) freezeWaiter(key string) (ghost *node, ctx context.Context) {
	w.Helper()
	holder := w.node(setup{})
	ghost = w.node(setup{ttl: brief, idle: brief, proxied: true})
	claim := holder.try(key)
	ctx = pgcoord.WithGrantID(w.ctx, "grant of the ghost")
	waitCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	waiting := async(w, func() error {
		_, err := ghost.Acquire(waitCtx, key)
		return err
	})
	w.sleepUnder(claim)
	ghost.proxy.Freeze()
	w.release(claim)
	cancel()
	err := soon(w, slack, waiting, "a frozen Acquire returns when its context ends")
	w.wants(err, context.Canceled, "a frozen Acquire")
	return ghost, ctx
}

func frozenWaiter(w *world) { // 53
	key := w.key("k")
	w.freezeWaiter(key)
	other := w.node(setup{})
	claim := other.acquireWithin(bound, key)
	w.usable(claim)
	w.release(claim)
}

func frozenWaiterRepeats(w *world) { // 53
	key := w.key("k")
	ghost, ctx := w.freezeWaiter(key)
	ghost.proxy.Thaw()
	claim, err := ghost.Acquire(ctx, key)
	w.must(err, "Acquire again under the same grant id")
	w.usable(claim)
	w.release(claim)
	w.audit(key, 1)
}
