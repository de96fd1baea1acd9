package statemachine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/faultproxy"
	"github.com/pgcoord/pgcoord/statemachine"
)

var errWork = errors.New("the work failed")

// heard notes which hooks have run, and in which state they found the row.
type heard struct {
	pool *pgxpool.Pool
	t    testing.TB
	told []string
}

// option returns a hook that notes its name.
func (h *heard) option(name string) statemachine.TransitionOptions {
	return statemachine.TransitionOptions{Record: true, After: func(_ context.Context, moved statemachine.Moved) {
		state := scan[string](h.t, h.pool, "SELECT status FROM orders WHERE id = $1::text::bigint", moved.Key)
		h.told = append(h.told, fmt.Sprintf("%s: %s to %s, is %s", name, moved.From, moved.To, state))
	}}
}

func (h *heard) want(want ...string) {
	h.t.Helper()
	if !slices.Equal(h.told, want) {
		h.t.Errorf("heard %q, want %q", h.told, want)
	}
	h.told = nil
}

func newHeard(t *testing.T) (context.Context, *heard, *statemachine.Machine) {
	t.Helper()
	pool := newPool(t)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	born(t, pool, 2, "PENDING")
	return within(t, 30*time.Second), &heard{pool: pool, t: t}, m
}

// start moves an order from PENDING with a hook named by its key.
func (h *heard) start(ctx context.Context, m *statemachine.Machine, db statemachine.DB, key string) error {
	_, err := m.Transition(ctx, db, key, "PENDING", "PROCESSING", h.option(key))
	return err
}

func TestHookAtOnce(t *testing.T) {
	t.Parallel()
	ctx, h, m := newHeard(t)
	if err := h.start(ctx, m, h.pool, "1"); err != nil {
		t.Fatal(err)
	}
	h.want("1: PENDING to PROCESSING, is PROCESSING")
	refused(t, h.start(ctx, m, h.pool, "1"), pgcoord.ErrConflict, "PROCESSING")
	h.want()
}

func TestHooksOfTransaction(t *testing.T) {
	t.Parallel()
	ctx, h, m := newHeard(t)
	err := statemachine.BeginFunc(ctx, h.pool, func(ctx context.Context, tx pgx.Tx) error {
		err := errors.Join(h.start(ctx, m, tx, "1"), statemachine.BeginFunc(ctx, tx, func(ctx context.Context, tx pgx.Tx) error {
			return h.start(ctx, m, tx, "2")
		}))
		_, third := m.Transition(ctx, tx, "1", "PROCESSING", "DONE", h.option("third"))
		h.want()
		return errors.Join(err, third)
	})
	if err != nil {
		t.Fatal(err)
	}
	h.want("1: PENDING to PROCESSING, is DONE", "2: PENDING to PROCESSING, is PROCESSING", "third: PROCESSING to DONE, is DONE")
}

// TestRollback is case M9: no hook, no history, the state as before, also where a
// savepoint was released.
func TestRollback(t *testing.T) {
	t.Parallel()
	ctx, h, m := newHeard(t)
	both := func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(h.start(ctx, m, tx, "1"), statemachine.BeginFunc(ctx, tx, func(ctx context.Context, tx pgx.Tx) error {
			return h.start(ctx, m, tx, "2")
		}))
	}
	ends := map[string]func(ctx context.Context, tx pgx.Tx) error{
		"error": func(context.Context, pgx.Tx) error { return errWork },
		"ignored error": func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "SELECT 1/0") // what is tested
			return nil
		},
		"panic": func(context.Context, pgx.Tx) error { panic(errWork) },
		"deferred constraint": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO twice VALUES (1), (1)")
			return err
		},
	}
	exec(t, h.pool, "CREATE TABLE twice (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	for name, end := range ends {
		err := func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = p.(error)
				}
			}()
			return statemachine.BeginFunc(ctx, h.pool, func(ctx context.Context, tx pgx.Tx) error {
				if err := both(ctx, tx); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				return end(ctx, tx)
			})
		}()
		if err == nil || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
			t.Errorf("%s: %v", name, err)
		}
		h.want()
		if n := scan[int](t, h.pool, "SELECT count(*) FROM orders WHERE status <> 'PENDING'"); n != 0 {
			t.Errorf("%s: %d rows have moved", name, n)
		}
		if events, err := m.History(ctx, h.pool, "1"); err != nil || len(events) != 0 {
			t.Errorf("%s: %+v, %v", name, events, err)
		}
	}
}

// TestSavepointRollback: what a savepoint took back has no hook when the rest
// commits.
func TestSavepointRollback(t *testing.T) {
	t.Parallel()
	ctx, h, m := newHeard(t)
	err := statemachine.BeginFunc(ctx, h.pool, func(ctx context.Context, tx pgx.Tx) error {
		for _, end := range []func(tx pgx.Tx) error{
			func(pgx.Tx) error { return errWork },
			func(tx pgx.Tx) error { _, _ = tx.Exec(ctx, "SELECT 1/0"); return nil },
		} {
			err := statemachine.BeginFunc(ctx, tx, func(ctx context.Context, tx pgx.Tx) error {
				if err := h.start(ctx, m, tx, "1"); err != nil {
					t.Error(err)
				}
				return end(tx)
			})
			if err == nil {
				t.Error("the savepoint did not fail")
			}
		}
		return h.start(ctx, m, tx, "2")
	})
	if err != nil {
		t.Fatal(err)
	}
	h.want("2: PENDING to PROCESSING, is PROCESSING")
}

// TestHooksNobodyRuns: a hook that would never run, or perhaps after a rollback, is
// refused before anything is sent.
func TestHooksNobodyRuns(t *testing.T) {
	t.Parallel()
	ctx, h, m := newHeard(t)
	wantRefusal := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "TransitionOptions.After") {
			t.Errorf("%s: %v", what, err)
		}
	}
	bare := begin(t, h.pool, pgx.TxOptions{})
	wantRefusal("a bare transaction", h.start(ctx, m, bare, "1"))
	if err := statemachine.BeginFunc(ctx, bare, func(ctx context.Context, tx pgx.Tx) error {
		wantRefusal("a savepoint of it", h.start(ctx, m, tx, "1"))
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := statemachine.BeginFunc(ctx, h.pool, func(ctx context.Context, tx pgx.Tx) error {
		savepoint, err := tx.Begin(ctx)
		wantRefusal("a savepoint by hand", h.start(ctx, m, savepoint, "1"))
		wantRefusal("another transaction", h.start(ctx, m, bare, "1"))
		return err
	}); err != nil {
		t.Error(err)
	}
	conn, err := h.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	exec(t, conn, "BEGIN")
	wantRefusal("a transaction by hand", h.start(ctx, m, conn, "1"))
	exec(t, conn, "ROLLBACK")
	if err := h.start(ctx, m, conn, "1"); err != nil {
		t.Errorf("an idle connection: %v", err)
	}
	h.want("1: PENDING to PROCESSING, is PROCESSING")
}

// TestWithHooks: where somebody else commits, the hooks are the caller's to run.
func TestWithHooks(t *testing.T) {
	t.Parallel()
	ctx, h, m := newHeard(t)
	tx := begin(t, h.pool, pgx.TxOptions{})
	inner, hooks := statemachine.WithHooks(ctx, tx)
	if err := h.start(inner, m, tx, "1"); err != nil {
		t.Fatal(err)
	}
	// A pool is another transaction, which has committed.
	if err := h.start(inner, m, h.pool, "2"); err != nil {
		t.Fatal(err)
	}
	h.want("2: PENDING to PROCESSING, is PROCESSING")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	h.want()
	hooks.Run(ctx)
	hooks.Run(ctx)
	h.want("1: PENDING to PROCESSING, is PROCESSING")
}

// TestHooksUnknown: no hook runs when the reply to the commit was lost, nor when
// the context ended before it was sent.
func TestHooksUnknown(t *testing.T) {
	t.Parallel()
	m, direct, pool, proxy := proxied(t)
	h := &heard{pool: direct, t: t}
	ctx := within(t, 30*time.Second)
	over, cancel := context.WithCancel(ctx)
	err := statemachine.BeginFunc(over, pool, func(ctx context.Context, tx pgx.Tx) error {
		defer cancel()
		return h.start(ctx, m, tx, "1")
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("cancelled: %v", err)
	}
	proxy.AtNext(faultproxy.Message.Commit, faultproxy.ForwardThenCut)
	err = statemachine.BeginFunc(ctx, pool, func(ctx context.Context, tx pgx.Tx) error { return h.start(ctx, m, tx, "1") })
	if !errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("cut: %v", err)
	}
	h.want()
	if state := stateOf(t, direct); state != "PROCESSING" {
		t.Errorf("state %s", state)
	}
}
