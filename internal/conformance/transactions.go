package conformance

import (
	"errors"
	"runtime"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
)

// transactionChecks prove S6 and S3 of BeginFunc, whatever its function does.
var transactionChecks = []check{
	{clause: "S6", name: "error_of_the_function_rolls_back", run: errorRollsBack},
	{clause: "S6", name: "panic_rolls_back", run: panicRollsBack},
	{clause: "S6", name: "goexit_rolls_back", run: goexitRollsBack},
	{clause: "S6", name: "ignored_error_is_no_success", run: ignoredErrorIsNoSuccess},
	{clause: "S6", name: "savepoint_inside", run: savepointInside},
	{clause: "S6", name: "function_must_not_end_the_transaction", run: functionMustNotEnd},
	{clause: "S3", name: "function_that_commits_and_begins", when: durableGuards, run: functionThatCommitsAndBegins},
}

// claimed gives a claim, and what must hold when the check has done its worst:
// the claim still works, and want is stored.
func (w *world) claimed() (claim pgcoord.Claim, after func(want int64)) {
	w.Helper()
	key, a := w.key("k"), w.node(setup{})
	claim = a.try(key)
	return claim, func(want int64) {
		w.Helper()
		w.usable(claim)
		w.release(claim)
		w.audit(key, want+1)
	}
}

func errorRollsBack(w *world) {
	claim, after := w.claimed()
	w.wants(claim.BeginFunc(w.ctx, func(tx pgx.Tx) error {
		return errors.Join(counting(w.ctx, claim)(tx), errWork)
	}), errWork, "BeginFunc with a function that fails")
	after(0)
}

func panicRollsBack(w *world) { // 33
	claim, after := w.claimed()
	func() {
		defer func() { same(w, recover(), any(errWork), "panic that BeginFunc passes on") }()
		_ = claim.BeginFunc(w.ctx, func(tx pgx.Tx) error {
			w.must(counting(w.ctx, claim)(tx), "count")
			panic(errWork)
		})
		w.Error("BeginFunc returned although its function panicked")
	}()
	after(0)
}

func goexitRollsBack(w *world) { // 33
	claim, after := w.claimed()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = claim.BeginFunc(w.ctx, func(tx pgx.Tx) error {
			if err := counting(w.ctx, claim)(tx); err != nil {
				w.Errorf("count: %v", err)
			}
			runtime.Goexit()
			return nil
		})
		w.Error("BeginFunc returned although its function has left the goroutine")
	}()
	soon(w, patience, over, "the goroutine ends")
	after(0)
}

func ignoredErrorIsNoSuccess(w *world) { // 33
	claim, after := w.claimed()
	w.refused(claim.BeginFunc(w.ctx, func(tx pgx.Tx) error {
		w.must(counting(w.ctx, claim)(tx), "count")
		if _, err := tx.Exec(w.ctx, "SELECT 1/0"); err == nil {
			w.Error("1/0 has a value")
		}
		return nil
	}), "BeginFunc with a function that ignores 22012")
	w.refused(claim.Complete(w.ctx, func(tx pgx.Tx) error {
		w.must(counting(w.ctx, claim)(tx), "count")
		_, _ = tx.Exec(w.ctx, "SELECT 1/0")
		return nil
	}), "Complete with a function that ignores 22012")
	after(0)
}

func savepointInside(w *world) {
	claim, after := w.claimed()
	w.must(claim.BeginFunc(w.ctx, func(tx pgx.Tx) error {
		inner, err := tx.Begin(w.ctx)
		w.must(err, "Begin inside")
		w.must(counting(w.ctx, claim)(inner), "count")
		_, err = inner.Exec(w.ctx, "SELECT 1/0")
		if err == nil {
			w.Error("1/0 has a value")
		}
		w.must(inner.Rollback(w.ctx), "Rollback inside")
		inner, err = tx.Begin(w.ctx)
		w.must(err, "Begin inside")
		w.must(counting(w.ctx, claim)(inner), "count")
		return inner.Commit(w.ctx)
	}), "BeginFunc with savepoints")
	after(1)
}

func functionMustNotEnd(w *world) {
	claim, after := w.claimed()
	w.refused(claim.BeginFunc(w.ctx, func(tx pgx.Tx) error {
		w.must(counting(w.ctx, claim)(tx), "count")
		return tx.Commit(w.ctx)
	}), "BeginFunc with a function that commits")
	w.refused(claim.BeginFunc(w.ctx, func(tx pgx.Tx) error {
		w.must(counting(w.ctx, claim)(tx), "count")
		return tx.Rollback(w.ctx)
	}), "BeginFunc with a function that rolls back")
	after(0)
}

// functionThatCommitsAndBegins shows the guard's second look: what comes after
// the function's own COMMIT is not guarded and must not be stored.
func functionThatCommitsAndBegins(w *world) {
	claim, after := w.claimed()
	for _, sql := range []string{"COMMIT; BEGIN", "ROLLBACK; BEGIN", "COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN"} {
		w.refused(claim.BeginFunc(w.ctx, func(tx pgx.Tx) error {
			_, err := tx.Conn().Exec(w.ctx, sql, pgx.QueryExecModeSimpleProtocol)
			w.must(err, sql)
			if sql == "COMMIT" || sql == "ROLLBACK" {
				return nil
			}
			return counting(w.ctx, claim)(tx)
		}), "BeginFunc with a function that sends "+sql)
	}
	after(0)
}
