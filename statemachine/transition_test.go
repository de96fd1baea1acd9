package statemachine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/statemachine"
)

// deaf is a pool that reaches nobody.
func deaf(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return pgtest.Pool(t, "postgres://127.0.0.1:1/nowhere?connect_timeout=1")
}

// TestRefusedUnsent: what is wrong by itself is refused before anything is sent.
func TestRefusedUnsent(t *testing.T) {
	t.Parallel()
	pool, m := deaf(t), define(t, orders())
	d := orders()
	d.TokenColumn = "-"
	tokenless := define(t, d)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	type states = []statemachine.State
	type options = statemachine.TransitionOptions
	tests := []struct {
		name string
		ctx  context.Context
		m    *statemachine.Machine
		db   statemachine.DB
		key  string
		from states
		to   statemachine.State
		o    options
		is   error
		says string
	}{
		{"undeclared edge", t.Context(), m, pool, "1", states{"PROCESSING"}, "PROCESSED", plain, pgcoord.ErrConflict, `may go to "DONE" or "FAILED" or "PENDING"`},
		{"one of two edges", t.Context(), m, pool, "1", states{"PROCESSING", "PENDING"}, "DONE", plain, pgcoord.ErrConflict, `from "PENDING" to "DONE" is not declared`},
		{"out of a final state", t.Context(), m, pool, "1", states{"DONE"}, "PENDING", plain, pgcoord.ErrConflict, "no edge leaves"},
		{"unknown state", t.Context(), m, pool, "1", states{"LOST"}, "DONE", plain, pgcoord.ErrConflict, `there is no state "LOST"`},
		{"to itself", t.Context(), m, pool, "1", states{"PENDING"}, "PENDING", plain, pgcoord.ErrConflict, "no transition"},
		{"from nowhere", t.Context(), m, pool, "1", nil, "DONE", plain, nil, "no state"},
		{"empty key", t.Context(), m, pool, "", states{"PENDING"}, "PROCESSING", plain, pgcoord.ErrInvalidKey, "empty"},
		{"NUL in the key", t.Context(), m, pool, "a\x00b", states{"PENDING"}, "PROCESSING", plain, pgcoord.ErrInvalidKey, "NUL"},
		{"negative token", t.Context(), m, pool, "1", states{"PENDING"}, "PROCESSING", options{Token: -1}, nil, "TransitionOptions.Token is -1"},
		{"token without a column", t.Context(), tokenless, pool, "1", states{"PENDING"}, "PROCESSING", options{Token: 1}, nil, "TransitionOptions.Token needs a token column"},
		{"raised without a column", t.Context(), tokenless, pool, "1", states{"PENDING"}, "PROCESSING", options{RaiseToken: true}, nil, "TransitionOptions.RaiseToken needs a token column"},
		{"NUL in metadata", t.Context(), m, pool, "1", states{"PENDING"}, "PROCESSING", options{Metadata: map[string]string{"a": "\x00"}}, nil, "TransitionOptions.Metadata"},
		{"too much metadata", t.Context(), m, pool, "1", states{"PENDING"}, "PROCESSING", options{Metadata: map[string]string{"a": strings.Repeat("x", 4096)}}, nil, "4096 are allowed"},
		{"no DB", t.Context(), m, nil, "1", states{"PENDING"}, "PROCESSING", plain, nil, "db is nil"},
		{"nil pool", t.Context(), m, (*pgxpool.Pool)(nil), "1", states{"PENDING"}, "PROCESSING", plain, nil, "nil pool"},
		{"bad operation id", pgcoord.WithOperation(t.Context(), ""), m, pool, "1", states{"PENDING"}, "PROCESSING", plain, nil, "operation id"},
		{"over before it began", over, m, pool, "1", states{"PENDING"}, "PROCESSING", plain, context.Canceled, "canceled"},
	}
	for _, tt := range tests {
		moved, err := tt.m.TransitionAny(tt.ctx, tt.db, tt.key, tt.from, tt.to, tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.says) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if moved.Key != "" {
			t.Errorf("%s: moved %+v", tt.name, moved)
		}
	}
}

// TestMoved: what a caller hears, wherever the statement runs.
func TestMoved(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	conn, err := pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	exec(t, conn, "SET synchronous_commit = off")
	tx := begin(t, pool, pgx.TxOptions{})
	either := []statemachine.State{"PENDING", "PROCESSING"}
	moved, err := m.Transition(ctx, tx, "1", "PENDING", "PROCESSING", statemachine.TransitionOptions{RaiseToken: true})
	want := statemachine.Moved{Machine: "orders.status", Key: "1", From: "PENDING", To: "PROCESSING", Token: moved.Token}
	if err != nil || moved.Machine != want.Machine || moved.From != want.From || moved.To != want.To || moved.Key != want.Key || moved.Token <= 0 {
		t.Errorf("in a transaction: %+v, %v", moved, err)
	}
	if state := stateOf(t, pool); state != "PENDING" {
		t.Errorf("before the commit: %s", state)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = m.TransitionAny(ctx, conn, "1", []statemachine.State{"PENDING"}, "PROCESSING", plain)
	if e := refused(t, err, pgcoord.ErrConflict, "PROCESSING"); e.To != "PROCESSING" || !strings.Contains(e.Error(), "already") {
		t.Errorf("a second time: %v", e.Error())
	}
	for _, db := range []statemachine.DB{conn, conn.Conn(), pool} {
		back, err := m.TransitionAny(ctx, db, "1", []statemachine.State{"PROCESSING"}, "PENDING", plain)
		if err != nil || back.Token != moved.Token {
			t.Fatalf("on a %T: %+v, %v", db, back, err)
		}
		if again, err := m.Transition(ctx, db, "1", "PENDING", "PROCESSING", plain); err != nil {
			t.Fatalf("on a %T: %+v, %v", db, again, err)
		}
	}
	if _, err := m.TransitionAny(ctx, pool, "1", either, "DONE", plain); !errors.Is(err, pgcoord.ErrConflict) {
		t.Errorf("one of two edges: %v", err)
	}
	if setting := scan[string](t, conn, "SHOW synchronous_commit"); setting != "off" {
		t.Errorf("synchronous_commit is %s after it", setting)
	}
}

// TestDurable: a transition's transaction waits for the disk, whatever the default.
func TestDurable(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" })
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	tx := begin(t, pool, pgx.TxOptions{})
	if _, err := m.Transition(ctx, tx, "1", "PENDING", "PROCESSING", plain); err != nil {
		t.Fatal(err)
	}
	if setting := scan[string](t, tx, "SHOW synchronous_commit"); setting != "on" {
		t.Errorf("synchronous_commit is %s", setting)
	}
}

// TestAnyOf: from whichever state the row is in.
func TestAnyOf(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	d := orders()
	d.Transitions = append(d.Transitions, statemachine.Transition{From: "PENDING", To: "FAILED"})
	m := define(t, d)
	create(t, pool, m, statemachine.DDLOptions{KeyTypes: []string{"bigint"}})
	born(t, pool, 1, "PENDING")
	born(t, pool, 2, "PROCESSING")
	born(t, pool, 3, "DONE")
	from := []statemachine.State{"PENDING", "PROCESSING"}
	for key, want := range map[string]statemachine.State{"1": "PENDING", "2": "PROCESSING"} {
		moved, err := m.TransitionAny(ctx, pool, key, from, "FAILED", statemachine.TransitionOptions{Record: true})
		if err != nil || moved.From != want {
			t.Errorf("%s: %+v, %v", key, moved, err)
		}
		if events, err := m.History(ctx, pool, key); err != nil || len(events) != 1 || events[0].From != want {
			t.Errorf("%s: %+v, %v", key, events, err)
		}
	}
	_, err := m.TransitionAny(ctx, pool, "3", from, "FAILED", plain)
	refused(t, err, pgcoord.ErrConflict, "DONE")
}

// TestNoWait: who must not wait hears of a lock at once, and the server has nothing
// to complain about.
func TestNoWait(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	dsn := pgtest.DSN(t)
	pool := pgtest.Pool(t, dsn)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	noWait := statemachine.TransitionOptions{NoWait: true}
	tx := begin(t, pool, pgx.TxOptions{})
	exec(t, tx, "SELECT FROM orders WHERE id = 1 FOR NO KEY UPDATE")
	if _, err := m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", noWait); !errors.Is(err, pgcoord.ErrHeld) {
		t.Errorf("locked: %v", err)
	}
	_, err := m.Transition(ctx, pool, "1", "PROCESSING", "DONE", noWait)
	refused(t, err, pgcoord.ErrConflict, "PENDING")
	if _, err := m.Transition(ctx, pool, "9", "PROCESSING", "DONE", noWait); !errors.Is(err, pgcoord.ErrNotFound) {
		t.Errorf("no row: %v", err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if errs := pgtest.LogErrors(t, dsn); len(errs) > 0 {
		t.Errorf("in the server's log: %q", errs)
	}
	// A row that a foreign key refers to is not taken.
	exec(t, pool, "CREATE TABLE lines (id bigint REFERENCES orders)")
	child := begin(t, pool, pgx.TxOptions{})
	exec(t, child, "INSERT INTO lines VALUES (1)")
	if _, err := m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", noWait); err != nil {
		t.Errorf("beside a child row: %v", err)
	}
}

// TestLockTimeout: the session's own limit ends the wait.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["lock_timeout"] = "20ms" })
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	tx := begin(t, pool, pgx.TxOptions{})
	exec(t, tx, "SELECT FROM orders WHERE id = 1 FOR UPDATE")
	if _, err := m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", plain); !errors.Is(err, pgcoord.ErrHeld) || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
}

// counter counts statements.
type counter struct {
	mu  sync.Mutex
	sql []string
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sql = append(c.sql, data.SQL)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	sql := c.sql
	c.sql = nil
	return sql
}

// TestOneStatement: after the first, a transition is one statement, and one more
// that reads where it has not moved the row.
func TestOneStatement(t *testing.T) {
	t.Parallel()
	ctx, count := within(t, 30*time.Second), &counter{}
	pool := newPool(t, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.Tracer = 1, count })
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	for i, o := range []statemachine.TransitionOptions{plain, plain, {Record: true}, {RaiseToken: true}, {NoWait: true, Record: true, RaiseToken: true}} {
		count.take()
		_, err := m.Transition(pgcoord.WithOperation(ctx, strings.Repeat("x", i+1)), pool, "1", "PENDING", "PROCESSING", o)
		if sql := count.take(); err != nil || i > 0 && len(sql) != 1 {
			t.Errorf("%+v: %v, %d statements: %q", o, err, len(sql), sql)
		}
		_, err = m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", o)
		refused(t, err, pgcoord.ErrConflict, "PROCESSING")
		if sql := count.take(); len(sql) != 2 {
			t.Errorf("%+v, lost: %d statements: %q", o, len(sql), sql)
		}
		exec(t, pool, "UPDATE orders SET status = 'PENDING'")
	}
}
