package statemachine_test

import (
	"strings"
	"testing"
	"time"

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

// Case M11, and its kin: each is named with the DDL that mends it.
func TestVerifyNamesEachFaultWithItsCure(t *testing.T) {
	t.Parallel()
	const states = "'PENDING', 'PROCESSING', 'DONE', 'FAILED'"
	const token = "fencing_token bigint NOT NULL DEFAULT 0"
	const good = "CHECK (status IN (" + states + "))"
	indexed := statemachine.DDLOptions{Claimable: []statemachine.State{"PENDING"}}
	all := statemachine.DDLOptions{Claimable: []statemachine.State{"PENDING"}, Trigger: true, Notify: true}
	many := func(d *statemachine.Definition) { d.Initial = append(d.Initial, "PROCESSING") }
	for name, c := range map[string]struct {
		change change
		o      statemachine.DDLOptions
		sql    string
		want   [][]string
	}{
		"no table":           {o: all, want: [][]string{{"fatal", "no table orders", "search_path"}}},
		"no table in quotes": {change: table(`"public.orders"`), want: [][]string{{"fatal", `"public.orders"`, "a dot belongs to the name"}}},
		"no columns": {
			change: many, sql: "CREATE TABLE orders (); INSERT INTO orders DEFAULT VALUES; INSERT INTO orders DEFAULT VALUES",
			want: [][]string{{"fatal", `column "id"`}, {"fatal", `column "status"`}, {"fatal", `column "fencing_token"`}, {"fatal", "primary key"}, {"warn", "no CHECK"}},
		},
		"rows in undeclared states": {
			sql: "CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL, " + token + `);
				INSERT INTO orders SELECT n, CASE WHEN n < 4 THEN 'PENDING' WHEN n = 4 THEN 'pending' ELSE E'it''s \\ odd' END FROM generate_series(1, 9) n`,
			want: [][]string{{"warn", "no CHECK of column", "status"}, {"warn", "5 rows", `it's \\ odd`}, {"warn", "1 row ", `"pending"`}},
		},
		"rows in undeclared states behind the trigger": {
			change: edge("PENDING", "GONE"), o: all,
			sql: "DDL; INSERT INTO orders SELECT n FROM generate_series(1, 3) n; UPDATE orders SET status = 'GONE' WHERE id < 3; REDEFINE",
			want: [][]string{
				{"warn", `takes the undeclared state "GONE"`},
				{"warn", "2 rows", `"GONE"`},
				{"warn", "orders_status_birth", "not that of this definition"},
				{"warn", "orders_status_edge", "not that of this definition"},
			},
		},
		"more undeclared states than are told": {
			sql: "CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL, " + token + `);
				INSERT INTO orders SELECT n, 's' || n FROM generate_series(1, 120) n`,
			want: append(append([][]string{{"warn", "no CHECK"}}, repeat(100, "warn", "1 row ")...), []string{"warn", "more rows"}),
		},
		"a CHECK that lacks a declared state": {
			sql:  "CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL CONSTRAINT old CHECK (status IN ('PENDING', 'DONE')), " + token + "); INSERT INTO orders VALUES (1, 'DONE')",
			want: [][]string{{"fatal", `constraint "old"`, `refuses the declared states "PROCESSING", "FAILED"`}},
		},
		"a CHECK that lacks a declared state and takes another": {
			sql:  "CREATE TABLE orders (id int PRIMARY KEY, status varchar(20) NOT NULL CONSTRAINT old CHECK (status IN ('DONE', 'OLD')), " + token + "); INSERT INTO orders VALUES (1, 'OLD')",
			want: [][]string{{"fatal", `constraint "old"`, `"PENDING"`}, {"warn", `undeclared state "OLD"`}, {"warn", "1 row ", `"OLD"`}},
		},
		"a CHECK not validated": {
			sql:  "DDL; ALTER TABLE orders DROP CONSTRAINT orders_status_states, ADD CONSTRAINT orders_status_states " + good + " NOT VALID",
			want: [][]string{{"warn", "orders_status_states", "not validated"}},
		},
		"an enum with an extra one": {
			sql: "CREATE TYPE mood AS ENUM (" + states + ", 'OLD', 'it''s'); CREATE TABLE orders (id int PRIMARY KEY, status mood NOT NULL, " + token + "); INSERT INTO orders VALUES (1, 'OLD')",
			want: [][]string{
				{"warn", "enum public.mood", `undeclared states "OLD", "it's"`},
				{"warn", "1 row ", `"OLD"`},
			},
		},
		"an enum that lacks declared ones": {
			sql:  `CREATE TYPE "Odd mood" AS ENUM ('DONE'); CREATE TABLE orders (id int PRIMARY KEY, status "Odd mood" NOT NULL, ` + token + ")",
			want: [][]string{{"fatal", `enum public."Odd mood"`, `"PENDING"`}, {"fatal", `"PROCESSING"`}, {"fatal", `"FAILED"`}},
		},
		"a state that no enum takes": {
			change: edge("PENDING", statemachine.State(long)),
			sql:    "CREATE TYPE mood AS ENUM (" + states + "); CREATE TABLE orders (id int PRIMARY KEY, status mood NOT NULL DEFAULT 'PENDING', " + token + ")",
			want:   [][]string{{"fatal", "64 bytes", "enum public.mood"}},
		},
		"nullable state and token": {
			sql: "CREATE TABLE orders (id int PRIMARY KEY, status text " + good + ", fencing_token bigint); INSERT INTO orders VALUES (1), (2), (3)",
			want: [][]string{
				{"fatal", `"status"`, "allows NULL, and 3 rows have it"},
				{"fatal", `"fencing_token"`, "allows NULL, and 3 rows have it"},
			},
		},
		"nullable behind the trigger": {
			o: all, sql: "DDL; ALTER TABLE orders ALTER status DROP NOT NULL; INSERT INTO orders VALUES (1); ALTER TABLE orders DISABLE TRIGGER ALL; UPDATE orders SET status = NULL; ALTER TABLE orders ENABLE TRIGGER ALL",
			want: [][]string{{"fatal", "allows NULL, and 1 row have"}, {"warn", "orders_status_birth", "not ENABLE ALWAYS"}, {"warn", "orders_status_edge", "not ENABLE ALWAYS"}},
		},
		"unfit types": {
			sql: "CREATE TABLE orders (id char(3) PRIMARY KEY, status int NOT NULL, fencing_token text NOT NULL DEFAULT '0'); INSERT INTO orders VALUES ('abc', 7, '12')",
			want: [][]string{
				{"fatal", `"id"`, "type character cannot be a key"},
				{"fatal", `"status"`, "type integer", "text, varchar or an enum"},
				{"fatal", `"fencing_token"`, "type text", "bigint"},
				{"warn", "1 row ", `"7"`},
			},
		},
		"unfit types behind the trigger": {
			o: all, sql: "DDL; INSERT INTO orders VALUES (1); UNDO; ALTER TABLE orders ALTER status TYPE varchar(7); ALTER TABLE orders ALTER fencing_token TYPE int; DDL",
			want: [][]string{{"fatal", "takes 7 characters, a declared state has 10"}, {"fatal", "integer"}},
		},
		"domains": {
			sql: "CREATE DOMAIN d AS text; CREATE DOMAIN k AS int; CREATE DOMAIN n AS bigint NOT NULL; CREATE TYPE mood AS ENUM (" + states + "); CREATE DOMAIN m AS mood;" +
				"CREATE TABLE orders (id k PRIMARY KEY, status m NOT NULL, fencing_token n)",
			want: [][]string{{"fatal", "must be text, varchar or an enum"}},
		},
		"nondeterministic collations": {
			sql: "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);" +
				"CREATE TABLE orders (id text COLLATE ci PRIMARY KEY, status text COLLATE ci NOT NULL " + good + ", " + token + "); INSERT INTO orders VALUES ('a', 'done')",
			want: [][]string{{"fatal", `key column "id"`, "not deterministic"}, {"fatal", `"status"`, "not deterministic"}, {"warn", "1 row ", `"done"`}},
		},
		"generated columns": {
			sql:  "CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL GENERATED ALWAYS AS ('PEN' || 'DING') STORED " + good + ", fencing_token bigint GENERATED ALWAYS AS IDENTITY)",
			want: [][]string{{"fatal", `"status"`, "generated"}, {"fatal", `"fencing_token"`, "IDENTITY"}},
		},
		"no unique index": {
			sql:  "CREATE TABLE orders (id int NOT NULL, status text NOT NULL " + good + ", " + token + ", UNIQUE (id, status)); CREATE UNIQUE INDEX ON orders (id) WHERE id > 0; CREATE UNIQUE INDEX ON orders ((id + 0))",
			want: [][]string{{"fatal", `covers the key ("id")`}},
		},
		"a deferrable primary key": {
			sql:  "CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE, status text NOT NULL " + good + ", " + token + ")",
			want: [][]string{{"fatal", "immediate"}},
		},
		"a nullable key": {
			sql:  "CREATE TABLE orders (id int UNIQUE, status text NOT NULL " + good + ", " + token + ")",
			want: [][]string{{"fatal", `key column "id"`, "allows NULL"}},
		},
		"not logged": {
			sql:  "DDL; ALTER TABLE orders SET UNLOGGED",
			want: [][]string{{"fatal", "not logged"}},
		},
		"a partition not logged": {
			sql: "CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL " + good + ", " + token + ") PARTITION BY HASH (id);" +
				`CREATE TABLE part PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE UNLOGGED TABLE "Part 2" PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
			want: [][]string{{"fatal", `public."Part 2"`, "not logged"}},
		},
		"a table that inherits": {
			sql:  `DDL; CREATE TABLE "Child" () INHERITS (orders)`,
			want: [][]string{{"fatal", `public."Child"`, "inherits"}},
		},
		"no index": {
			o: indexed, sql: "CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL " + good + ", " + token + "); CREATE INDEX ON orders (id) WHERE status = 'DONE'; CREATE INDEX ON orders (id) WHERE id > 7 AND status = 'PENDING'",
			want: [][]string{{"warn", "no valid index", `"PENDING"`}},
		},
		"an index that is not valid": {
			o: indexed, sql: `DDL; UPDATE pg_index SET indisvalid = false WHERE indexrelid = '"orders_status_ready_PENDING"'::regclass`,
			want: [][]string{{"warn", "no valid index", `"PENDING"`}},
		},
		"no triggers": {
			o: all, sql: "DDL; UNDO; ALTER TABLE orders ADD " + good + `; CREATE INDEX ON orders (status)`,
			want: [][]string{{"warn", "no trigger", "birth"}, {"warn", "no trigger", "edge"}, {"warn", "no trigger", "newwork"}, {"warn", "no trigger", "work"}},
		},
		"a trigger disabled": {
			o:    statemachine.DDLOptions{Claimable: indexed.Claimable, Notify: true},
			sql:  "DDL; ALTER TABLE orders DISABLE TRIGGER ALL",
			want: [][]string{{"warn", "newwork", "disabled"}, {"warn", "work", "disabled"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			d := orders()
			if c.change != nil {
				c.change(&d)
			}
			m := define(t, d)
			o := c.o
			o.KeyTypes = []string{"bigint"}
			ddl, err := m.DDL(o)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.sql, "REDEFINE") {
				m = define(t, orders())
			}
			exec(t, pool, strings.NewReplacer("REDEFINE", "", "UNDO;", m.UndoDDL(), "DDL", ddl).Replace(c.sql))
			expect(t, verify(t, pool, m, c.o), c.want...)
			mend(t, pool, m, c.o)
		})
	}
}

func repeat(n int, words ...string) [][]string {
	out := make([][]string, n)
	for i := range out {
		out[i] = words
	}
	return out
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
	expect(t, verify(t, tx, m, everything(m))[4:])
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
