package conformance

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
)

// operationChecks prove S5: with an operation id, effects are applied once.
var operationChecks = []check{
	{clause: "S5", name: "applied_once", run: appliedOnce},
	{clause: "S5", name: "applied_once_over_claims", run: appliedOnceOverClaims},
	{clause: "S5", name: "applied_once_at_once", run: appliedOnceAtOnce},
	{clause: "S5", name: "failed_operation_can_be_repeated", run: failedCanBeRepeated},
	{clause: "S5", name: "complete_names_the_operation", run: completeNamesOperation},
	{clause: "S5", name: "ids_are_exact", run: idsAreExact},
	{clause: "S5", name: "do_with_operation", run: doWithOperation},
}

func operation(w *world, id string) context.Context { return pgcoord.WithOperation(w.ctx, id) }

// never is the function of a guarded transaction that must not run.
func (w *world) never(pgx.Tx) error {
	w.Error("the function of a repeated operation ran")
	return nil
}

func appliedOnce(w *world) { // 27
	key, a := w.key("k"), w.node(setup{})
	claim := a.try(key)
	w.must(claim.BeginFunc(operation(w, "op"), counting(w.ctx, claim)), "BeginFunc under an operation")
	for range 2 {
		w.wants(claim.BeginFunc(operation(w, "op"), w.never), pgcoord.ErrDone, "the same operation again")
	}
	w.usable(claim)
	w.release(claim)
	w.audit(key, 2)
}

func appliedOnceOverClaims(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	first := a.try(key)
	w.must(first.BeginFunc(operation(w, "op"), counting(w.ctx, first)), "BeginFunc under an operation")
	w.release(first)
	second := b.try(key)
	w.wants(second.BeginFunc(operation(w, "op"), w.never), pgcoord.ErrDone, "the same operation under the next claim")
	outcome, err := a.Resolve(w.ctx, key, "op")
	w.must(err, "Resolve")
	same(w, outcome, pgcoord.Applied, "Resolve of an applied operation")
	w.usable(second)
	w.release(second)
	w.audit(key, 2)
}

func appliedOnceAtOnce(w *world) {
	const callers = 6
	key, a := w.key("k"), w.node(setup{})
	claim := a.try(key)
	var results []<-chan error
	for range callers {
		results = append(results, async(w, func() error {
			return claim.BeginFunc(operation(w, "op"), counting(w.ctx, claim))
		}))
	}
	applied := 0
	for _, r := range results {
		err := soon(w, patience, r, "BeginFunc returns")
		if err == nil {
			applied++
			continue
		}
		w.wants(err, pgcoord.ErrDone, "the same operation at once")
	}
	same(w, applied, 1, "times that the operation was applied")
	w.release(claim)
	w.audit(key, 1)
}

func failedCanBeRepeated(w *world) {
	key, a := w.key("k"), w.node(setup{})
	claim := a.try(key)
	w.wants(claim.BeginFunc(operation(w, "op"), func(tx pgx.Tx) error {
		return errors.Join(counting(w.ctx, claim)(tx), errWork)
	}), errWork, "an operation that fails")
	w.must(claim.BeginFunc(operation(w, "op"), counting(w.ctx, claim)), "the operation again")
	w.release(claim)
	w.audit(key, 1)
}

func completeNamesOperation(w *world) {
	key, a := w.key("k"), w.node(setup{})
	claim := a.try(key)
	w.must(claim.BeginFunc(operation(w, "op"), counting(w.ctx, claim)), "BeginFunc under an operation")
	w.wants(claim.Complete(operation(w, "op"), w.never), pgcoord.ErrDone, "Complete under an operation that was applied")
	w.usable(claim) // a definite failure leaves the claim as before
	w.must(claim.Complete(operation(w, "last"), counting(w.ctx, claim)), "Complete under an operation")
	outcome, err := a.Resolve(w.ctx, key, "last")
	w.must(err, "Resolve")
	same(w, outcome, pgcoord.Applied, "Resolve of the operation of Complete")
	w.audit(key, 3)
}

func idsAreExact(w *world) {
	a := w.node(setup{})
	keys := []string{w.key("k1"), w.key("k2")}
	one, two := a.try(keys[0]), a.try(keys[1])
	ids := []string{"op", "op ", "OP", "caf\u00e9", "cafe\u0301", "'; DROP SCHEMA pgcoord CASCADE; --", strings.Repeat("x", 128)}
	for _, id := range ids {
		w.must(one.BeginFunc(operation(w, id), counting(w.ctx, one)), "operation "+id)
		w.must(two.BeginFunc(operation(w, id), counting(w.ctx, two)), "operation "+id+" on another key")
	}
	for _, id := range []string{"", "a\x00b", "a\xff", strings.Repeat("x", 129)} {
		w.refused(one.BeginFunc(operation(w, id), w.never), "BeginFunc with a bad operation id")
		w.refused(one.Complete(operation(w, id), w.never), "Complete with a bad operation id")
		_, err := a.Resolve(w.ctx, keys[0], id)
		w.refused(err, "Resolve with a bad operation id")
	}
	w.usable(one)
	w.release(one)
	w.release(two)
	w.audit(keys[0], int64(len(ids))+1)
	w.audit(keys[1], int64(len(ids)))
}

// doWithOperation names the operation in the context of Do, whose own Complete
// must not be taken for a repetition of it.
func doWithOperation(w *world) {
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	work := func(ctx context.Context, claim pgcoord.Claim) error {
		return claim.BeginFunc(ctx, counting(ctx, claim))
	}
	w.must(pgcoord.Do(operation(w, "op"), a, key, work), "Do under an operation")
	if w.strategy.RemembersDone {
		_, err := b.TryAcquire(w.ctx, key)
		w.wants(err, pgcoord.ErrDone, "TryAcquire after Do")
		w.audit(key, 1)
		return
	}
	w.release(b.try(key)) // Do has ended its claim
	w.wants(pgcoord.Do(operation(w, "op"), b, key, work), pgcoord.ErrDone, "Do under the same operation")
	w.release(a.try(key))
	w.audit(key, 1)
}
