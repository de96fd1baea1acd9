package statemachine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/statemachine"
)

// TestExecModes: however pgx sends statements, also through what pools transactions.
func TestExecModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		for _, level := range []string{"read committed", "repeatable read"} {
			t.Run(mode.String()+" "+level, func(t *testing.T) {
				pool := newPool(t, func(c *pgxpool.Config) {
					c.ConnConfig.DefaultQueryExecMode = mode
					c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
				})
				exec(t, pool, "CREATE TABLE o (tenant text, id bigint, status text NOT NULL, fencing_token bigint NOT NULL DEFAULT 0, PRIMARY KEY (tenant, id))")
				exec(t, pool, "INSERT INTO o VALUES ('it''s', 7, 'A')")
				m := define(t, statemachine.Definition{
					Table: "o", Key: []string{"tenant", "id"}, Initial: []statemachine.State{"A"},
					Transitions: []statemachine.Transition{{From: "A", To: "B"}, {From: "B", To: "A"}},
				})
				tour(t, pool, m, statemachine.Key("it's", 7), true)
			})
		}
	}
}

// TestGround: what is wrong with the database is told, with its cure.
func TestGround(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	dsn := pgtest.EmptyDSN(t)
	pool := pgtest.Pool(t, dsn)
	move := func(pool *pgxpool.Pool, d statemachine.Definition, o statemachine.TransitionOptions) error {
		_, err := define(t, d).Transition(ctx, pool, "1", "PENDING", "PROCESSING", o)
		return err
	}
	wantError := func(err error, says string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
			t.Errorf("got %v, want an error that says %q", err, says)
		}
	}
	wantError(move(pool, orders(), plain), `there is no table "orders"`)
	exec(t, pool, "CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL, fencing_token bigint NOT NULL DEFAULT 0)")
	born(t, pool, 1, "PENDING")
	other := orders()
	other.StateColumn = "state"
	wantError(move(pool, other, plain), `no column "state"`)
	other = orders()
	other.TokenColumn = "token"
	if err := move(pool, other, plain); err == nil || strings.Contains(err.Error(), "migrations") {
		t.Errorf("a missing column is blamed on the schema: %v", err)
	}
	readOnly := pgtest.Pool(t, dsn, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	})
	wantError(move(readOnly, orders(), plain), "read-only")
	for _, o := range []statemachine.TransitionOptions{{Record: true}, {RaiseToken: true}} {
		wantError(move(pool, orders(), o), "migrations.Up")
	}
	if state := stateOf(t, pool); state != "PENDING" {
		t.Errorf("state %s", state)
	}
	if err := move(pool, orders(), plain); err != nil {
		t.Errorf("a bare transition, which needs nothing of the schema: %v", err)
	}
}

// TestDatabaseRefuses: where the trigger of the DDL knows fewer edges than the
// machine, its refusal is a conflict.
func TestDatabaseRefuses(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	create(t, pool, define(t, orders()), statemachine.DDLOptions{KeyTypes: []string{"bigint"}, Trigger: true})
	born(t, pool, 1, "PENDING")
	newer := orders()
	newer.Transitions = append(newer.Transitions, statemachine.Transition{From: "PENDING", To: "DONE"})
	_, err := define(t, newer).Transition(ctx, pool, "1", "PENDING", "DONE", plain)
	if !errors.Is(err, pgcoord.ErrConflict) || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	if state := stateOf(t, pool); state != "PENDING" {
		t.Errorf("state %s", state)
	}
}
