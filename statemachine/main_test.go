package statemachine_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/conformance"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/statemachine"
)

func TestMain(m *testing.M) { conformance.Main(m, jobs) }

// newPool returns a pool on a new migrated database.
func newPool(t testing.TB, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	return pgtest.Pool(t, pgtest.DSN(t), change...)
}

// orders is a machine as most tests want it, over the table orders.
func orders() statemachine.Definition {
	return statemachine.Definition{
		Table:   "orders",
		Initial: []statemachine.State{"PENDING"},
		Transitions: []statemachine.Transition{
			{From: "PENDING", To: "PROCESSING"},
			{From: "PROCESSING", To: "DONE"},
			{From: "PROCESSING", To: "FAILED"},
			{From: "PROCESSING", To: "PENDING"},
		},
	}
}

// define returns the machine of d.
func define(t testing.TB, d statemachine.Definition) *statemachine.Machine {
	t.Helper()
	m, err := statemachine.Define(d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// newOrders makes the table orders, with its DDL and keys of type bigint, and
// returns the machine.
func newOrders(t testing.TB, pool *pgxpool.Pool) *statemachine.Machine {
	t.Helper()
	m := define(t, orders())
	create(t, pool, m, statemachine.DDLOptions{KeyTypes: []string{"bigint"}, Claimable: []statemachine.State{"PENDING"}})
	return m
}

// create makes m's table.
func create(t testing.TB, pool *pgxpool.Pool, m *statemachine.Machine, o statemachine.DDLOptions) {
	t.Helper()
	sql, err := m.DDL(o)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, sql)
}

// within returns a context for a test that must not hang.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func exec(t testing.TB, db statemachine.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(within(t, 10*time.Second), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func scan[T any](t testing.TB, db statemachine.DB, sql string, args ...any) T {
	t.Helper()
	rows, err := db.Query(within(t, 10*time.Second), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}
