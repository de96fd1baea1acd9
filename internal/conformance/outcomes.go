package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/faultproxy"
)

// outcomeChecks prove S6 of commits: what is not known is said to be unknown, and
// can be resolved for good.
var outcomeChecks = []check{
	{clause: "S6", name: "commit_reply_cut", run: commitReplyCut},
	{clause: "S6", name: "commit_never_arrived", run: commitNeverArrived},
	{clause: "S6", name: "commit_reply_frozen", run: commitReplyFrozen},
	{clause: "S6", name: "resolve_waits_for_late_commit", run: func(w *world) { resolveWaits(w, nil, pgcoord.Applied) }},
	{clause: "S6", name: "resolve_waits_for_late_rollback", run: func(w *world) { resolveWaits(w, errWork, pgcoord.NotApplied) }},
	{clause: "S6", name: "resolve_gives_up_undecided", run: resolveGivesUp},
	{clause: "S6", name: "withdrawn_on_its_way", run: withdrawnOnItsWay},
	{clause: "S6", name: "ended_before_commit", run: endedBeforeCommit},
}

// commit runs fn under claim in the call whose success makes it durable.
func (w *world) commit(ctx context.Context, claim pgcoord.Claim, fn func(pgx.Tx) error) error {
	if w.strategy.DurableGuards {
		return claim.BeginFunc(ctx, fn)
	}
	return claim.Complete(ctx, fn)
}

// resolved proves that operation "op" on key has had that outcome for every node.
func (w *world) resolved(key string, want pgcoord.Outcome, nodes ...*node) {
	w.Helper()
	for _, n := range nodes {
		for range 2 {
			got, err := n.Resolve(w.ctx, key, "op")
			w.must(err, "Resolve on "+n.name)
			same(w, got, want, "Resolve on "+n.name)
		}
	}
}

func commitReplyCut(w *world) { // 51
	key, a, b := w.key("k"), w.node(setup{proxied: true}), w.node(setup{})
	claim := a.try(key)
	cut := a.proxy.AtNext(faultproxy.Message.Commit, faultproxy.ForwardThenCut)
	err := w.commit(operation(w, "op"), claim, counting(w.ctx, claim))
	w.wants(err, pgcoord.ErrOutcomeUnknown, "a commit whose reply was cut")
	if !w.closed(cut) {
		w.Fatal("the proxy has seen no commit")
	}
	w.resolved(key, pgcoord.Applied, b, a)
	if w.strategy.DurableGuards {
		w.wants(claim.BeginFunc(operation(w, "op"), w.never), pgcoord.ErrDone, "the operation again")
		w.usable(claim)
		w.release(claim)
		w.audit(key, 2)
		return
	}
	w.audit(key, 1)
}

func commitNeverArrived(w *world) {
	key, a, b := w.key("k"), w.node(setup{ttl: brief, proxied: true}), w.node(setup{})
	claim := a.try(key)
	a.proxy.AtNext(faultproxy.Message.Commit, faultproxy.DropAndCut)
	err := w.commit(operation(w, "op"), claim, counting(w.ctx, claim))
	w.wants(err, pgcoord.ErrOutcomeUnknown, "a commit that was cut on its way")
	w.resolved(key, pgcoord.NotApplied, b, a)
	if !w.strategy.DurableGuards {
		claim = b.acquireWithin(bound, key)
	}
	// The id is withdrawn: what was resolved must not become wrong later.
	w.wants(claim.BeginFunc(operation(w, "op"), w.never), pgcoord.ErrConflict, "the operation again, after Resolve")
	w.must(claim.BeginFunc(operation(w, "another"), counting(w.ctx, claim)), "the operation under a new id")
	w.release(claim)
	w.audit(key, 1)
}

func commitReplyFrozen(w *world) { // 51
	key, a, b := w.key("k"), w.node(setup{proxied: true}), w.node(setup{})
	claim := a.try(key)
	ctx, cancel := context.WithCancel(operation(w, "op"))
	frozen := a.proxy.AtNext(faultproxy.Message.Commit, faultproxy.ForwardThenFreeze)
	result := async(w, func() error { return w.commit(ctx, claim, counting(w.ctx, claim)) })
	soon(w, patience, frozen, "the commit is on its way")
	cancel()
	err := soon(w, slack, result, "a commit without a reply returns when its context ends")
	w.wants(err, pgcoord.ErrOutcomeUnknown, "a commit without a reply")
	w.wants(err, context.Canceled, "a commit without a reply")
	w.resolved(key, pgcoord.Applied, b)
	a.proxy.Thaw()
	w.audit(key, 1)
}

// resolveWaits asks for an operation whose transaction is still open: the answer
// must come from its end.
func resolveWaits(w *world, end error, want pgcoord.Outcome) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	claim := a.try(key)
	finish := w.begin(operation(w, "op"), claim, counting(w.ctx, claim))
	resolve := async(w, func() pgcoord.Outcome {
		outcome, err := b.Resolve(w.ctx, key, "op")
		if err != nil {
			w.Errorf("Resolve: %v", err)
		}
		return outcome
	})
	w.waitsForLock(b)
	w.wants(finish(end), end, "end of the guarded transaction")
	if !w.strategy.DurableGuards {
		w.release(claim)
	}
	same(w, soon(w, slack, resolve, "Resolve answers"), want, "Resolve")
	w.resolved(key, want, a, b)
	if w.strategy.DurableGuards {
		w.release(claim)
	}
	w.audit(key, int64(want))
}

func resolveGivesUp(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	claim := a.try(key)
	finish := w.begin(operation(w, "op"), claim, counting(w.ctx, claim))
	_, err := b.Resolve(w.within(100*time.Millisecond), key, "op")
	w.wants(err, context.DeadlineExceeded, "Resolve of an operation under way")
	w.must(finish(nil), "end of the guarded transaction") // nothing was decided
	w.release(claim)
	w.resolved(key, pgcoord.Applied, a, b)
	w.audit(key, 1)
}

// withdrawnOnItsWay resolves an operation whose transaction has been sent and has
// not arrived: it is refused when it does.
func withdrawnOnItsWay(w *world) {
	key, a, b := w.key("k"), w.node(setup{proxied: true}), w.node(setup{})
	claim := a.try(key)
	a.proxy.Freeze()
	late := async(w, func() error { return claim.BeginFunc(operation(w, "op"), counting(w.ctx, claim)) })
	w.resolved(key, pgcoord.NotApplied, b)
	a.proxy.Thaw()
	w.wants(soon(w, patience, late, "the late transaction returns"), pgcoord.ErrConflict, "a transaction that was withdrawn")
	w.resolved(key, pgcoord.NotApplied, a, b)
	w.usable(claim)
	w.release(claim)
	w.audit(key, 1)
}

// endedBeforeCommit has the context end before the commit is sent: definite.
func endedBeforeCommit(w *world) { // 51
	key, a := w.key("k"), w.node(setup{})
	claim := a.try(key)
	for _, run := range []func(context.Context, func(pgx.Tx) error) error{claim.BeginFunc, claim.Complete} {
		ctx, cancel := context.WithCancel(operation(w, "op"))
		err := run(ctx, func(tx pgx.Tx) error {
			defer cancel()
			return counting(w.ctx, claim)(tx)
		})
		w.wants(err, context.Canceled, "a commit after the end of its context")
		if errors.Is(err, pgcoord.ErrOutcomeUnknown) {
			w.Fatalf("a commit that was never sent is unknown: %v", err)
		}
	}
	w.must(claim.BeginFunc(operation(w, "op"), counting(w.ctx, claim)), "the operation again")
	w.release(claim)
	w.audit(key, 1)
}
