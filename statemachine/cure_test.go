package statemachine_test

import (
	"strings"
	"testing"

	"github.com/pgcoord/pgcoord/statemachine"
)

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
		"a CHECK not enforced, since PostgreSQL 18": {
			sql: "CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL, " + token + `); DO $$ BEGIN
				IF current_setting('server_version_num')::int >= 180000 THEN
					EXECUTE 'ALTER TABLE orders ADD CHECK (status = ''PENDING'') NOT ENFORCED';
				END IF;
			END $$`,
			want: [][]string{{"warn", "no CHECK"}},
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
		"an index that is not valid for the key": {
			sql:  "CREATE TABLE orders (id int NOT NULL, status text NOT NULL " + good + ", " + token + "); CREATE UNIQUE INDEX k ON orders (id); UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'k'::regclass",
			want: [][]string{{"fatal", "valid"}},
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
