package statemachine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// trigger is a live one of the table.
type trigger struct {
	enabled  string // as in pg_trigger.tgenabled
	function string
	body     string
}

const triggersSQL = `
SELECT t.tgname::text, t.tgenabled::text, p.proname::text, p.prosrc
  FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
 WHERE t.tgrelid = $1 AND NOT t.tgisinternal AND t.tgname::text = ANY ($2::text[])`

func (v *inspection) readTriggers(ctx context.Context) (map[string]trigger, error) {
	ours := []string{v.birthTrigger(), v.edgeTrigger(), v.newWorkTrigger(), v.workTrigger()}
	rows, err := v.db.Query(ctx, triggersSQL, v.rel.oid, ours)
	if err != nil {
		return nil, err
	}
	found := map[string]trigger{}
	var name string
	var t trigger
	_, err = pgx.ForEachRow(rows, []any{&name, &t.enabled, &t.function, &t.body}, func() error {
		found[name] = t
		return nil
	})
	return found, err
}

// anyOf reports whether one of the triggers is there.
func (v *inspection) anyOf(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, found := v.triggers[name]
		return found
	})
}

// pastTriggers returns sql such that the triggers of DDL that are there neither
// refuse it nor depend on the column that it changes.
func (v *inspection) pastTriggers(sql string) string {
	guarded := v.anyOf(v.birthTrigger(), v.edgeTrigger())
	wakes := v.anyOf(v.newWorkTrigger(), v.workTrigger()) && len(v.o.Claimable) > 0
	if !guarded && !wakes {
		return sql
	}
	sql = v.dropTriggers() + sql
	if guarded {
		sql += v.guardDDL()
	}
	if wakes {
		sql += v.wakeDDL(v.o.Claimable)
	}
	return sql
}

func (v *inspection) triggerFaults() {
	guard := []string{v.birthTrigger(), v.edgeTrigger()}
	if v.o.Trigger || v.anyOf(guard...) {
		for _, name := range guard {
			v.triggerFault(name, v.guardFunction(), v.guardBody(), v.guardDDL(), "A")
		}
	}
	if v.o.Notify {
		for _, name := range []string{v.newWorkTrigger(), v.workTrigger()} {
			v.triggerFault(name, v.wakeFunction(), v.wakeBody(v.o.Claimable), v.wakeDDL(v.o.Claimable), "AO")
		}
	}
}

func (v *inspection) triggerFault(name, function, body, cure, enabled string) {
	t, found := v.triggers[name]
	switch {
	case !found:
		v.warn(cure, "table %s has no trigger %s", v.named(), quoted(name))
	case t.function != function || t.body != body:
		v.warn(cure, "trigger %s of %s is not that of this definition", quoted(name), v.named())
	case strings.Contains(enabled, t.enabled):
	case enabled == "A":
		v.warn(cure, "trigger %s of %s is not ENABLE ALWAYS, so it can be passed by", quoted(name), v.named())
	default:
		v.warn(cure+"ALTER TABLE "+v.from()+" ENABLE TRIGGER "+quoted(name)+";\n", "trigger %s of %s is disabled", quoted(name), v.named())
	}
}

// index is a live one, with what it covers.
type index struct {
	valid     bool
	leading   bool   // its first column is the state
	predicate string // "" of an index of all rows
}

const indexesSQL = `
SELECT i.indisvalid, coalesce(a.attname::text = $2, false), coalesce(pg_catalog.pg_get_expr(i.indpred, i.indrelid), '')
  FROM pg_catalog.pg_index i
  LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
 WHERE i.indrelid = $1`

// indexFaults looks for an index by which a claim finds the rows of each claimable
// state: one that begins with the state, or a partial one of that state.
func (v *inspection) indexFaults(ctx context.Context) error {
	c, found := v.columns[v.state]
	if len(v.o.Claimable) == 0 || !found {
		return nil
	}
	rows, err := v.db.Query(ctx, indexesSQL, v.rel.oid, v.state)
	if err != nil {
		return err
	}
	indexes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i index, err error) {
		err = row.Scan(&i.valid, &i.leading, &i.predicate)
		return i, err
	})
	if err != nil {
		return err
	}
	for _, s := range v.o.Claimable {
		served := false
		for _, i := range indexes {
			if !served && i.valid && (i.leading || i.predicate != "") {
				if served, err = v.serves(ctx, c, i, s); err != nil {
					return err
				}
			}
		}
		if !served {
			v.warn("DROP INDEX IF EXISTS "+v.beside(v.indexName(s))+";\n"+v.indexDDL(s),
				"no valid index of %s finds the rows in state %s: each claim reads the whole table", v.named(), shown(string(s)))
		}
	}
	return nil
}

// serves reports whether the index has the rows in state s. Of a predicate the
// server is asked.
func (v *inspection) serves(ctx context.Context, c column, i index, s State) (bool, error) {
	if i.predicate == "" {
		return true, nil
	}
	if c.enum != "" && !slices.Contains(c.labels, string(s)) {
		return false, nil
	}
	row := "$1::text"
	if c.enum != "" {
		row += "::" + c.enum
	}
	row += " AS " + quoted(v.state)
	if v.rel.nulls != "" {
		row += ", " + v.rel.nulls
	}
	var has bool
	err := v.db.QueryRow(ctx, fmt.Sprintf("SELECT (%s) IS TRUE FROM (SELECT %s) r", i.predicate, row), string(s)).Scan(&has)
	return has, err
}
