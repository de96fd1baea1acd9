package statemachine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/statemachine"
)

func verify(t *testing.T, db statemachine.DB, m *statemachine.Machine, o statemachine.DDLOptions) []statemachine.Finding {
	t.Helper()
	findings, err := m.Verify(within(t, 20*time.Second), db, o)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

// expect fails unless the findings are those wanted, each told by its words, of
// which the first is "fatal" or "warn".
func expect(t *testing.T, findings []statemachine.Finding, want ...[]string) {
	t.Helper()
	for i := range max(len(findings), len(want)) {
		switch {
		case i >= len(want):
			t.Errorf("not wanted: %+v", findings[i])
		case i >= len(findings):
			t.Errorf("not found: %q", want[i])
		case findings[i].Fatal != (want[i][0] == "fatal"):
			t.Errorf("not %s: %+v", want[i][0], findings[i])
		default:
			for _, word := range want[i][1:] {
				if !strings.Contains(findings[i].Problem, word) {
					t.Errorf("%q\ndoes not say %q", findings[i].Problem, word)
				}
			}
		}
	}
}

// mend runs the cures, after which Verify must find nothing.
func mend(t *testing.T, pool *pgxpool.Pool, m *statemachine.Machine, o statemachine.DDLOptions) {
	t.Helper()
	for _, f := range verify(t, pool, m, o) {
		if f.Cure == "" {
			t.Errorf("no cure of: %s", f.Problem)
			continue
		}
		exec(t, pool, f.Cure)
	}
	expect(t, verify(t, pool, m, o))
}

func TestVerifyFindsNothingInWhatDDLMade(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	noToken, composite := orders(), hostileStates()
	noToken.Table, noToken.TokenColumn = "no_token", "-"
	composite.Key = []string{"a", `b "c"`}
	for _, c := range []struct {
		d     statemachine.Definition
		types []string
	}{{orders(), []string{"uuid"}}, {noToken, []string{"bigint"}}, {composite, []string{"text", "smallint"}}} {
		m := define(t, c.d)
		create(t, pool, m, everything(m, c.types...))
		expect(t, verify(t, pool, m, everything(m)))
		expect(t, verify(t, pool, m, statemachine.DDLOptions{}))
	}
}

// What no statement mends is told all the same.
func TestVerifyNamesWhatHasNoCure(t *testing.T) {
	t.Parallel()
	const columns = "status text NOT NULL CHECK (status IN ('PENDING', 'PROCESSING', 'DONE', 'FAILED')), fencing_token bigint NOT NULL DEFAULT 0"
	for name, c := range map[string]struct {
		sql  string
		want [][]string
	}{
		"a view":                  {"CREATE TABLE t (id int PRIMARY KEY, " + columns + "); CREATE VIEW orders AS SELECT * FROM t", [][]string{{"fatal", "orders is a view", "behind it"}}},
		"a materialized view":     {"CREATE MATERIALIZED VIEW orders AS SELECT 1 AS id", [][]string{{"fatal", "a materialized view"}}},
		"a sequence":              {"CREATE SEQUENCE orders", [][]string{{"fatal", "a sequence"}}},
		"a type":                  {"CREATE TYPE orders AS (id int)", [][]string{{"fatal", "a type"}}},
		"partitioned by state":    {"CREATE TABLE orders (id int, " + columns + ", PRIMARY KEY (id, status)) PARTITION BY LIST (status)", [][]string{{"fatal", `partitioned by column "status"`}, {"fatal", "no unique index can"}}},
		"partitioned by others":   {"CREATE TABLE orders (id int NOT NULL, day date, " + columns + ") PARTITION BY RANGE (day)", [][]string{{"fatal", "no unique index can", `"day"`}}},
		"keys that are too long":  {"CREATE TABLE orders (id text PRIMARY KEY, " + columns + "); INSERT INTO orders VALUES ('', 'DONE'), (repeat('k', 513), 'DONE'), (repeat('k', 512), 'DONE')", [][]string{{"warn", "key of 2 rows", "512 bytes"}}},
		"a partitioned table, ok": {"CREATE TABLE orders (id int PRIMARY KEY, " + columns + ") PARTITION BY RANGE (id)", nil},
		"a part of the key, ok":   {"CREATE TABLE orders (id bigint PRIMARY KEY, " + columns + "); CREATE INDEX ON orders (status)", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			exec(t, pool, c.sql)
			findings := verify(t, pool, define(t, orders()), statemachine.DDLOptions{})
			expect(t, findings, c.want...)
			for _, f := range findings {
				if f.Cure != "" {
					t.Errorf("a cure: %+v", f)
				}
			}
		})
	}
}

// A temporary table belongs to one session.
func TestVerifyNamesATemporaryTable(t *testing.T) {
	t.Parallel()
	pool := newPool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	m := define(t, orders())
	exec(t, pool, "CREATE TEMP TABLE orders (id bigint PRIMARY KEY)")
	create(t, pool, m, statemachine.DDLOptions{})
	expect(t, verify(t, pool, m, statemachine.DDLOptions{}), []string{"fatal", "temporary"})
}

func TestVerifyTakesAnyOrderOfTheKey(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	d := orders()
	d.Key = []string{"a", "b", "c"}
	m := define(t, d)
	for _, key := range []string{"PRIMARY KEY (c, a, b)", "UNIQUE (b, a)", "UNIQUE (c) INCLUDE (note)"} {
		exec(t, pool, "DROP TABLE IF EXISTS orders; CREATE TABLE orders (a int NOT NULL, b uuid NOT NULL, c varchar(9) NOT NULL, note text, "+key+")")
		create(t, pool, m, statemachine.DDLOptions{})
		expect(t, verify(t, pool, m, statemachine.DDLOptions{}))
	}
}

// Verify as the role that will work, the cures as the owner.
func TestVerifyNamesMissingPrivileges(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	admin := pgtest.Pool(t, dsn)
	role := pgtest.NewRole(t, dsn)
	app := pgtest.Pool(t, dsn, role.Login)
	exec(t, admin, `CREATE SCHEMA "The shop"`)
	d := orders()
	d.Table = `"The shop".orders`
	m := define(t, d)
	create(t, admin, m, everything(m, "bigint"))
	findings := verify(t, app, m, everything(m))
	expect(t, findings,
		[]string{"fatal", role.Name, `may not use schema "The shop"`},
		[]string{"fatal", "may not read", `"id"`},
		[]string{"fatal", "may not read", `"status"`},
		[]string{"fatal", "may not update", `"status"`},
		[]string{"fatal", "may not read", `"fencing_token"`},
		[]string{"fatal", "may not update", `"fencing_token"`},
	)
	for _, f := range findings {
		exec(t, admin, f.Cure)
	}
	expect(t, verify(t, app, m, everything(m)))
}

// A look into a database must work from within a transaction, and on a standby.
func TestVerifyChangesNothing(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	m := newOrders(t, pool)
	ctx := within(t, 20*time.Second)
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	exec(t, tx, "SET TRANSACTION READ ONLY")
	exec(t, tx, "SET LOCAL search_path = ''")
	expect(t, verify(t, tx, m, statemachine.DDLOptions{}), []string{"fatal", "no table orders", "search_path"})
	exec(t, tx, "SET LOCAL search_path = public")
	expect(t, verify(t, tx, m, statemachine.DDLOptions{Claimable: m.States()[:1]}))
}

func TestVerifyWithoutADatabase(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	pool.Close()
	_, err := define(t, orders()).Verify(within(t, 5*time.Second), pool, statemachine.DDLOptions{})
	if err == nil || !strings.Contains(err.Error(), "orders.status") {
		t.Errorf("got %v, want an error that names the machine", err)
	}
}

// Behind a transaction pooler statements are not prepared.
func TestVerifyInOtherQueryModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	} {
		pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
		m := define(t, orders())
		create(t, pool, m, everything(m, "bigint"))
		expect(t, verify(t, pool, m, everything(m)))
		exec(t, pool, `ALTER TABLE orders DISABLE TRIGGER ALL; ALTER TABLE orders DROP CONSTRAINT orders_status_states;
			INSERT INTO orders VALUES (1, 'STRAY')`)
		if found := verify(t, pool, m, everything(m)); len(found) != 6 {
			t.Errorf("%v: %d findings, want 6: %v", mode, len(found), found)
		}
		mend(t, pool, m, everything(m))
	}
}
