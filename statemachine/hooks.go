package statemachine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// Hooks keeps the TransitionOptions.After of a transaction until it is known that
// it has committed, which the library cannot see in a transaction of the caller.
// BeginFunc does all of it; where the commit is somebody else's:
//
//	ctx, hooks := statemachine.WithHooks(ctx, tx)
//	… m.Transition(ctx, tx, …, statemachine.TransitionOptions{After: …})
//	if err := tx.Commit(ctx); err == nil {
//		hooks.Run(ctx)
//	}
//
// Hooks that are never run are dropped. Its methods are safe for concurrent use.
type Hooks struct {
	tx pgx.Tx

	mu      sync.Mutex
	pending []hook
}

type hook struct {
	after func(context.Context, Moved)
	moved Moved
}

type hooksKey struct{}

// WithHooks collects the hooks of transitions that run under the context it
// returns, in tx itself. A savepoint may be rolled back alone, so transitions in
// one have no hooks unless BeginFunc made it.
func WithHooks(ctx context.Context, tx pgx.Tx) (context.Context, *Hooks) {
	h := &Hooks{tx: tx}
	return context.WithValue(ctx, hooksKey{}, h), h
}

// Run runs what was collected, in the order of the transitions, each once. Call it
// when the outermost transaction has committed, and only then. The panic of a hook
// passes on, and drops those behind it.
func (h *Hooks) Run(ctx context.Context) {
	for _, hook := range h.take() {
		hook.after(ctx, hook.moved)
	}
}

func (h *Hooks) take() []hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	pending := h.pending
	h.pending = nil
	return pending
}

func (h *Hooks) add(more ...hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending = append(h.pending, more...)
}

// hooksOf returns the hooks that ctx collects for tx, or nil.
func hooksOf(ctx context.Context, tx pgx.Tx) *Hooks {
	h, _ := ctx.Value(hooksKey{}).(*Hooks)
	if h == nil || tx == nil || h.tx == nil || !reflect.TypeOf(tx).Comparable() || h.tx != tx {
		return nil
	}
	return h
}

// after returns what to do with the hook of a transition that has been made.
func (v *move) after(ctx context.Context, where place) (func(context.Context, Moved), error) {
	switch {
	case v.o.After == nil:
		return func(context.Context, Moved) {}, nil
	case where.own:
		return v.o.After, nil
	}
	hooks := hooksOf(ctx, where.tx)
	if hooks == nil {
		return nil, errors.New("TransitionOptions.After would never run: this transaction has no Hooks; begin it with BeginFunc, or see WithHooks")
	}
	return func(_ context.Context, moved Moved) { hooks.add(hook{v.o.After, moved}) }, nil
}

// Beginner begins a transaction: a pool, a connection, or a pgx.Tx for a savepoint.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// commitLimit bounds a commit.
const commitLimit = 10 * time.Second

// BeginFunc runs fn in a transaction, commits it and then runs the hooks of the
// transitions in it. It follows pgx.BeginFunc: fn must neither commit nor roll back,
// and an error or panic of fn rolls back. Fn must use the context that it is given.
//
// Where db is itself a transaction, fn runs in a savepoint, and its hooks wait for
// the outermost commit: that of the BeginFunc or WithHooks that ctx stems from. Of
// a savepoint that is rolled back none is left.
//
// It fails with the error of fn, with an error that matches ctx.Err() when ctx
// ended before the commit was sent, or with pgcoord.ErrOutcomeUnknown when the
// reply to the commit did not arrive. After any error but the last nothing of fn is
// stored; after any error no hook has run.
func BeginFunc(ctx context.Context, db Beginner, fn func(ctx context.Context, tx pgx.Tx) error) error {
	hooks, err := inTransaction(ctx, db, fn)
	if err != nil {
		return err
	}
	outer, nested := db.(pgx.Tx)
	if !nested {
		hooks.Run(ctx)
		return nil
	}
	if waiting := hooksOf(ctx, outer); waiting != nil {
		waiting.add(hooks.take()...)
	}
	return nil
}

// inTransaction runs fn and commits; it returns the hooks to be run.
func inTransaction(ctx context.Context, db Beginner, fn func(ctx context.Context, tx pgx.Tx) error) (*Hooks, error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return nil, pgerr.Describe("begin", "", err)
	}
	committing := false
	// Deferred, so that a panic and runtime.Goexit in fn roll back too.
	defer func() {
		if !committing {
			endCtx, cancel := statement.Outlive(ctx, statement.Grace, commitLimit)
			defer cancel()
			_ = tx.Rollback(endCtx) // a failure of this closes the connection, which rolls back
		}
	}()
	inner, hooks := ctx, &Hooks{}
	if outer, nested := db.(pgx.Tx); !nested || hooksOf(ctx, outer) != nil {
		inner, hooks = WithHooks(ctx, tx)
	}
	if err := fn(inner, tx); err != nil {
		return nil, err // the caller's own
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("pgcoord: not committed: %w", err)
	}
	const failed = 'E' // a savepoint could not be released then, only rolled back
	if tx.Conn().PgConn().TxStatus() == failed {
		return nil, fmt.Errorf("pgcoord: %w: a statement of the function failed and its error was ignored", pgx.ErrTxCommitRollback)
	}
	committing = true
	return hooks, commit(ctx, tx)
}

func commit(parent context.Context, tx pgx.Tx) error {
	ctx, cancel := statement.Outlive(parent, statement.Grace, commitLimit)
	defer cancel()
	err := tx.Commit(ctx)
	if err != nil && !errors.Is(err, pgx.ErrTxCommitRollback) && !errors.Is(err, pgx.ErrTxClosed) && !pgerr.Certain(err) {
		err = fmt.Errorf("%w: %w", pgcoord.ErrOutcomeUnknown, err)
	}
	return pgerr.Describe("commit", "", err)
}
