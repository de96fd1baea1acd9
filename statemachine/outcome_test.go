package statemachine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/faultproxy"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/statemachine"
)

// proxied returns a machine with order 1, a pool straight to it, and one through a
// proxy that has moved an order already.
func proxied(t *testing.T) (m *statemachine.Machine, direct, pool *pgxpool.Pool, proxy *faultproxy.Proxy) {
	t.Helper()
	dsn := pgtest.DSN(t)
	proxy = pgtest.Proxy(t, dsn)
	direct, pool = pgtest.Pool(t, dsn), pgtest.Pool(t, proxy.DSN(dsn))
	m = newOrders(t, direct)
	born(t, direct, 1, "PENDING")
	born(t, direct, 2, "PENDING")
	if _, err := m.Transition(within(t, 10*time.Second), pool, "2", "PENDING", "PROCESSING", plain); err != nil {
		t.Fatal(err)
	}
	return m, direct, pool, proxy
}

// moves matches the statement of a transition.
func moves(m faultproxy.Message) bool { return m.Runs("UPDATE") || m.Runs("WITH") }

// TestLostReply: without an operation's id a statement whose reply was lost is not
// sent again, and nobody says that it had no effect.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action faultproxy.Action
		after  string
	}{{faultproxy.ForwardThenCut, "PROCESSING"}, {faultproxy.DropAndCut, "PENDING"}} {
		m, direct, pool, proxy := proxied(t)
		proxy.AtNext(moves, tt.action)
		ran := false
		_, err := m.Transition(within(t, 10*time.Second), pool, "1", "PENDING", "PROCESSING", statemachine.TransitionOptions{
			After: func(context.Context, statemachine.Moved) { ran = true },
		})
		if !errors.Is(err, pgcoord.ErrOutcomeUnknown) || ran {
			t.Errorf("%v; the hook ran: %v", err, ran)
		}
		if state := stateOf(t, direct); state != tt.after {
			t.Errorf("state %s, want %s", state, tt.after)
		}
	}
}

// TestLostReplyOfOperation: with an id it is sent again, and moves the row once.
func TestLostReplyOfOperation(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action faultproxy.Action
		want   error
	}{{faultproxy.ForwardThenCut, pgcoord.ErrDone}, {faultproxy.DropAndCut, nil}} {
		m, direct, pool, proxy := proxied(t)
		proxy.AtNext(moves, tt.action)
		ctx := pgcoord.WithOperation(within(t, 10*time.Second), "op")
		_, err := m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", statemachine.TransitionOptions{Record: true})
		if !errors.Is(err, tt.want) || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
			t.Errorf("got %v, want %v", err, tt.want)
		}
		if n := scan[int](t, direct, "SELECT count(*) FROM pgcoord.transitions"); n != 1 {
			t.Errorf("moved %d times", n)
		}
		if _, err := m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", plain); !errors.Is(err, pgcoord.ErrDone) {
			t.Errorf("again: %v", err)
		}
	}
}

// TestUnreachable: where nothing was sent, nothing is unknown.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	m, _, pool, proxy := proxied(t)
	proxy.Refuse(true)
	proxy.Cut()
	pool.Reset()
	_, err := m.Transition(within(t, 10*time.Second), pool, "1", "PENDING", "PROCESSING", plain)
	if err == nil || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
}

// TestBrokenTransaction: what was not committed will never be, so that is certain.
func TestBrokenTransaction(t *testing.T) {
	t.Parallel()
	m, direct, pool, proxy := proxied(t)
	tx := begin(t, pool, pgx.TxOptions{})
	proxy.AtNext(moves, faultproxy.ForwardThenCut)
	_, err := m.Transition(within(t, 10*time.Second), tx, "1", "PENDING", "PROCESSING", plain)
	if err == nil || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	if state := stateOf(t, direct); state != "PENDING" {
		t.Errorf("state %s", state)
	}
}

// TestCancelledWait: who gives up while it waits knows that it has not moved the
// row, and its connection is as good as before.
func TestCancelledWait(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "serializable"} {
		pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level })
		m := newOrders(t, pool)
		born(t, pool, 1, "PENDING")
		tx := begin(t, pool, pgx.TxOptions{})
		exec(t, tx, "SELECT FROM orders WHERE id = 1 FOR UPDATE")
		conn, err := pool.Acquire(within(t, 10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		ctx, cancel := context.WithCancel(within(t, 30*time.Second))
		waiting := goes(func() (statemachine.Moved, error) {
			return m.Transition(ctx, conn, "1", "PENDING", "PROCESSING", plain)
		})
		waits(t, pool, 1)
		cancel()
		got := <-waiting
		if !errors.Is(got.err, context.Canceled) || errors.Is(got.err, pgcoord.ErrOutcomeUnknown) {
			t.Errorf("got %v", got.err)
		}
		if err := tx.Rollback(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Transition(within(t, 10*time.Second), conn, "1", "PENDING", "PROCESSING", plain); err != nil {
			t.Errorf("afterwards, on the same connection: %v", err)
		}
	}
}

// TestFrozenNetwork: where no reply comes at all, the caller is told so soon after
// its context has ended, with both truths.
func TestFrozenNetwork(t *testing.T) {
	t.Parallel()
	m, direct, pool, proxy := proxied(t)
	ctx, cancel := context.WithCancel(within(t, 30*time.Second))
	frozen := proxy.AtNext(moves, faultproxy.ForwardThenFreeze)
	waiting := goes(func() (statemachine.Moved, error) {
		return m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", plain)
	})
	<-frozen
	proxy.Freeze() // for the request to cancel too
	cancel()
	select {
	case got := <-waiting:
		if !errors.Is(got.err, context.Canceled) || !errors.Is(got.err, pgcoord.ErrOutcomeUnknown) {
			t.Errorf("got %v", got.err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it has not returned")
	}
	proxy.Thaw()
	pgtest.Eventually(t, 10*time.Second, "the row has moved", func() bool { return stateOf(t, direct) == "PROCESSING" })
}

// TestOperation: applied at most once, also when the row goes round.
func TestOperation(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	born(t, pool, 2, "PENDING")
	op := pgcoord.WithOperation(ctx, "op")
	if _, err := m.Transition(op, pool, "1", "PROCESSING", "DONE", plain); !errors.Is(err, pgcoord.ErrConflict) {
		t.Errorf("from a state where it is not: %v", err)
	}
	for i, want := range []error{nil, pgcoord.ErrDone, pgcoord.ErrDone} {
		if _, err := m.Transition(op, pool, "1", "PENDING", "PROCESSING", plain); !errors.Is(err, want) {
			t.Errorf("time %d: %v", i, err)
		}
		if i > 0 {
			continue
		}
		if _, err := m.Transition(ctx, pool, "1", "PROCESSING", "PENDING", plain); err != nil {
			t.Fatal(err)
		}
	}
	if state := stateOf(t, pool); state != "PENDING" {
		t.Errorf("state %s", state)
	}
	// In a transaction of the caller the id names that.
	tx := begin(t, pool, pgx.TxOptions{})
	for _, step := range [][2]statemachine.State{{"PENDING", "PROCESSING"}, {"PROCESSING", "DONE"}} {
		if _, err := m.Transition(op, tx, "2", step[0], step[1], plain); err != nil {
			t.Error(err)
		}
	}
	// Given up by Resolve.
	exec(t, pool, "INSERT INTO pgcoord.operations (domain, key, operation_id, token, applied) VALUES ('machine:' || $1, '1', 'late', 0, false)", m.Name())
	_, err := m.Transition(pgcoord.WithOperation(ctx, "late"), pool, "1", "PENDING", "PROCESSING", plain)
	if !errors.Is(err, pgcoord.ErrConflict) || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("withdrawn: %v", err)
	}
}

// TestOperationRace: two calls under one id, of which the second waits for the row
// while it goes round: it must not move it again.
func TestOperationRace(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	op := pgcoord.WithOperation(ctx, "op")
	tx := begin(t, pool, pgx.TxOptions{})
	exec(t, tx, "UPDATE orders SET status = 'PROCESSING' WHERE id = 1")
	exec(t, tx, "INSERT INTO pgcoord.operations (domain, key, operation_id, token, applied) VALUES ('machine:' || $1, '1', 'op', 0, true)", m.Name())
	exec(t, tx, "UPDATE orders SET status = 'PENDING' WHERE id = 1")
	second := goes(func() (statemachine.Moved, error) { return m.Transition(op, pool, "1", "PENDING", "PROCESSING", plain) })
	waits(t, pool, 1)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-second; !errors.Is(got.err, pgcoord.ErrDone) {
		t.Errorf("got %v", got.err)
	}
	if state := stateOf(t, pool); state != "PENDING" {
		t.Errorf("state %s", state)
	}
}

// TestOperationKept: a row that a trigger keeps has not had the operation applied.
func TestOperationKept(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	exec(t, pool, `CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	exec(t, pool, `CREATE TRIGGER keep BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION keep()`)
	op := pgcoord.WithOperation(ctx, "op")
	_, err := m.Transition(op, pool, "1", "PENDING", "PROCESSING", plain)
	if !errors.Is(err, pgcoord.ErrConflict) || errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("got %v", err)
	}
	exec(t, pool, "DROP TRIGGER keep ON orders")
	if _, err := m.Transition(op, pool, "1", "PENDING", "PROCESSING", plain); err != nil {
		t.Errorf("without the trigger: %v", err)
	}
}
