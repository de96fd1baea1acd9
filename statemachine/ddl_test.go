package statemachine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/statemachine"
)

// everything is what DDL can do for m.
func everything(m *statemachine.Machine, keyTypes ...string) statemachine.DDLOptions {
	return statemachine.DDLOptions{KeyTypes: keyTypes, Claimable: m.States()[:1], Trigger: true, Notify: true}
}

// shapeOf lists what belongs to a table, by its catalogue rows.
func shapeOf(t *testing.T, db statemachine.DB, table string) string {
	t.Helper()
	return scan[string](t, db, `
		SELECT coalesce(string_agg(line, E'\n' ORDER BY line), '') FROM (
			SELECT 'column ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull
			       || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '') AS line
			  FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
			 WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
			UNION ALL SELECT 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = to_regclass($1)
			UNION ALL SELECT 'index ' || pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = to_regclass($1)
			UNION ALL SELECT 'trigger ' || tgenabled::text || ' ' || pg_get_triggerdef(oid) FROM pg_trigger
			           WHERE tgrelid = to_regclass($1) AND NOT tgisinternal
			UNION ALL SELECT 'function ' || p.oid::regprocedure || md5(prosrc) FROM pg_proc p
			           WHERE p.prorettype = 'trigger'::regtype AND p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass($1))
		) lines`, table)
}

func TestDDLMakesTheTable(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	m := define(t, orders())
	create(t, pool, m, everything(m, "uuid"))
	got := shapeOf(t, pool, "orders")
	for _, line := range []string{
		"column id uuid true ",
		"column status text true 'PENDING'::text",
		"column fencing_token bigint true 0",
		"constraint orders_pkey PRIMARY KEY (id)",
		"constraint orders_status_states CHECK ((status = ANY (ARRAY['PENDING'::text, 'PROCESSING'::text, 'DONE'::text, 'FAILED'::text])))",
		`index CREATE INDEX "orders_status_ready_PENDING" ON public.orders USING btree (id) WHERE (status = 'PENDING'::text)`,
		"trigger A CREATE TRIGGER orders_status_birth AFTER INSERT ON public.orders",
		"trigger A CREATE TRIGGER orders_status_edge AFTER UPDATE ON public.orders",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("%s\nlacks %s", got, line)
		}
	}
	if loose := scan[string](t, pool, `SELECT coalesce(string_agg(proname, ', '), '') FROM pg_proc
		WHERE prorettype = 'trigger'::regtype AND pronamespace = 'public'::regnamespace
		  AND (prosecdef OR NOT coalesce(proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp'])`); loose != "" {
		t.Errorf("SECURITY DEFINER, or no pinned search_path: %s", loose)
	}
}

// What DDL makes it can make again, and UndoDDL takes away, under any names.
func TestDDLCanBeRunAgainAndUndone(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	exec(t, pool, `CREATE SCHEMA "odd ""schema""; --"`)
	plain := orders()
	strange := hostileStates()
	strange.Table, strange.StateColumn, strange.TokenColumn = `"odd ""schema""; --"."a""b\c $body$ '%s'"`, `st'ate\ "x" :y`, `to"ken`
	strange.Key = []string{"a", `b "c"`}
	longest := orders()
	longest.Table, longest.StateColumn = `"`+long[:63]+`"`, strings.Repeat("é", 31)
	noToken := orders()
	noToken.Table, noToken.TokenColumn = "no_token", "-"
	for table, c := range map[string]struct {
		d     statemachine.Definition
		types []string
	}{
		"orders": {plain, []string{"bigint"}},
		`"odd ""schema""; --"."a""b\c $body$ '%s'"`: {strange, []string{"varchar", "uuid"}},
		long[:63]:  {longest, []string{"text"}},
		"no_token": {noToken, []string{"smallint"}},
	} {
		m := define(t, c.d)
		create(t, pool, m, statemachine.DDLOptions{KeyTypes: c.types})
		bare := shapeOf(t, pool, table)
		for range 2 {
			create(t, pool, m, everything(m, c.types...))
			once := shapeOf(t, pool, table)
			create(t, pool, m, everything(m, c.types...))
			if again := shapeOf(t, pool, table); again != once {
				t.Errorf("%s: the second time made\n%s\nof\n%s", table, again, once)
			}
			if !strings.Contains(once, "trigger") {
				t.Errorf("%s: no trigger in\n%s", table, once)
			}
			exec(t, pool, m.UndoDDL())
			exec(t, pool, m.UndoDDL())
			create(t, pool, m, statemachine.DDLOptions{})
			if undone := shapeOf(t, pool, table); undone != bare {
				t.Errorf("%s: undone is\n%s\nnot\n%s", table, undone, bare)
			}
		}
		if left := scan[int](t, pool, "SELECT count(*)::int FROM pg_proc WHERE prorettype = 'trigger'::regtype AND pronamespace <> 'pg_catalog'::regnamespace"); left != 0 {
			t.Errorf("%s: %d functions are left", table, left)
		}
	}
}

// Undoing what was never there is no error: a migration may be half applied.
func TestUndoDDLWithoutATable(t *testing.T) {
	t.Parallel()
	d := orders()
	d.Table = "shop.orders"
	pool := newPool(t)
	exec(t, pool, "CREATE SCHEMA shop")
	exec(t, pool, define(t, d).UndoDDL())
}

func TestDDLOverATableThatIsThere(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	exec(t, pool, "CREATE TABLE orders (id integer PRIMARY KEY, amount int); INSERT INTO orders VALUES (1, 5), (2, 6)")
	m := define(t, orders())
	create(t, pool, m, everything(m))
	if got := scan[string](t, pool, "SELECT string_agg(id || status || fencing_token, ',' ORDER BY id) FROM orders"); got != "1PENDING0,2PENDING0" {
		t.Errorf("rows are %s", got)
	}
	// A definition that grows: the CHECK and the trigger follow.
	d := orders()
	edge("PENDING", "CANCELLED")(&d)
	grown := define(t, d)
	if _, err := pool.Exec(within(t, 5*time.Second), "UPDATE orders SET status = 'CANCELLED' WHERE id = 1"); err == nil {
		t.Error("a state that was not declared was taken")
	}
	create(t, pool, grown, everything(grown))
	exec(t, pool, "UPDATE orders SET status = 'CANCELLED' WHERE id = 1")
}

func TestDDLOverAnEnum(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	exec(t, pool, `CREATE TYPE mood AS ENUM ('PENDING', 'PROCESSING', 'DONE', 'FAILED', 'OLD');
		CREATE TABLE orders (id integer PRIMARY KEY, status mood NOT NULL)`)
	m := define(t, orders())
	create(t, pool, m, everything(m))
	exec(t, pool, "INSERT INTO orders VALUES (1, 'PENDING'); UPDATE orders SET status = 'PROCESSING'")
	for _, sql := range []string{"INSERT INTO orders VALUES (2, 'OLD')", "UPDATE orders SET status = 'OLD'"} {
		if _, err := pool.Exec(within(t, 5*time.Second), sql); err == nil {
			t.Errorf("%s: was taken", sql)
		}
	}
}

// A backslash in a state must not become an escape under an old setting.
func TestDDLUnderOtherStrings(t *testing.T) {
	t.Parallel()
	pool := newPool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off" })
	d := hostileStates()
	d.Table = "odd"
	m := define(t, d)
	create(t, pool, m, everything(m, "bigint"))
	for id, path := range m.Paths(0) {
		exec(t, pool, "INSERT INTO odd (id, status) VALUES ($1, $2)", id, path[0])
		for _, to := range path[1:] {
			exec(t, pool, "UPDATE odd SET status = $2 WHERE id = $1", id, to)
		}
	}
	expect(t, verify(t, pool, m, everything(m)))
}

// Two machines must not share a function, an index or a trigger.
func TestDDLNamesDoNotMeet(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	definition := func(table, column, name string) statemachine.Definition {
		d := orders()
		d.Table, d.StateColumn, d.Name = table, column, name
		return d
	}
	seen := 0
	for _, d := range []statemachine.Definition{
		definition("a_b", "c", ""), definition("a", "b_c", ""), definition("a", "b", ""),
		definition(`"`+long[:62]+`1"`, "c", ""), definition(`"`+long[:62]+`2"`, "c", ""),
	} {
		m := define(t, d)
		create(t, pool, m, everything(m, "bigint"))
		seen++
		for what, want := range map[string]int{
			"pg_proc WHERE prorettype = 'trigger'::regtype AND pronamespace = 'public'::regnamespace": 2 * seen,
			"pg_indexes WHERE schemaname = 'public' AND indexdef LIKE '%PENDING%'":                    seen,
			"pg_trigger WHERE NOT tgisinternal":                                                       4 * seen,
		} {
			if got := scan[int](t, pool, "SELECT count(*)::int FROM "+what); got != want {
				t.Fatalf("%s: %d of %s, want %d", m.Name(), got, what, want)
			}
		}
	}
}

func TestDDLRefuses(t *testing.T) {
	t.Parallel()
	m := define(t, orders())
	for name, c := range map[string]struct {
		o     statemachine.DDLOptions
		words []string
	}{
		"types for another key": {statemachine.DDLOptions{KeyTypes: []string{"text", "text"}}, []string{"DDLOptions.KeyTypes", "2 types", "1 columns"}},
		"injected type":         {statemachine.DDLOptions{KeyTypes: []string{"text); drop table x; --"}}, []string{"DDLOptions.KeyTypes[0]", "drop table x"}},
		"unfit type":            {statemachine.DDLOptions{KeyTypes: []string{"numeric"}}, []string{"DDLOptions.KeyTypes[0]", `"numeric"`, "uuid"}},
		"unknown state":         {statemachine.DDLOptions{Claimable: []statemachine.State{"NEW"}}, []string{"DDLOptions.Claimable[0]", `"NEW"`}},
		"twice":                 {statemachine.DDLOptions{Claimable: []statemachine.State{"PENDING", "PENDING"}}, []string{"DDLOptions.Claimable[1]", "twice"}},
		"notify of nothing":     {statemachine.DDLOptions{Notify: true}, []string{"DDLOptions.Notify", "Claimable"}},
		"all at once": {
			statemachine.DDLOptions{KeyTypes: []string{"x"}, Claimable: []statemachine.State{"y"}},
			[]string{"DDLOptions.KeyTypes[0]", "DDLOptions.Claimable[0]"},
		},
	} {
		sql, err := m.DDL(c.o)
		if err == nil || sql != "" {
			t.Errorf("%s: got %q, %v; want it refused", name, sql, err)
			continue
		}
		if _, verify := m.Verify(within(t, time.Second), nil, c.o); verify == nil {
			t.Errorf("%s: Verify takes it", name)
		}
		for _, word := range append(c.words, "orders.status") {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v\ndoes not say %q", name, err, word)
			}
		}
	}
}
