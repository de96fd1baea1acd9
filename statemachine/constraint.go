package statemachine

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// constraint is a CHECK of the state column alone.
type constraint struct {
	name       string
	expression string
	valid      bool
}

const checksSQL = `
SELECT c.conname::text, pg_catalog.pg_get_expr(c.conbin, c.conrelid), c.convalidated
  FROM pg_catalog.pg_constraint c
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)
 WHERE c.conrelid = $1 AND c.contype = 'c' AND a.attname::text = $2 AND pg_catalog.cardinality(c.conkey) = 1
   AND coalesce((pg_catalog.to_jsonb(c) ->> 'conenforced')::boolean, true)
 ORDER BY 1`

// outsider is a state that no CHECK would name.
const outsider = State("\x01 no state of any machine")

// checkFaults asks the server, by the CHECKs' own expressions, which states they
// take: all declared ones must be, others must not.
func (v *inspection) checkFaults(ctx context.Context) error {
	c, found := v.columns[v.state]
	switch {
	case v.remakesCheck:
		return nil
	case !found:
		v.needCheck(false, "table %s has no CHECK of states", v.named())
		return nil
	}
	others, declared := v.otherStates(c)
	taken, err := v.taken(ctx, c, slices.Concat(declared, others))
	if err != nil {
		return err
	}
	v.lacking(declared, taken)
	v.admitted(c, others, taken)
	for _, check := range v.checks {
		if check.name == v.checkName() && !check.valid && !v.remakesCheck {
			v.warn(v.validateDDL(), "constraint %s of %s is not validated: rows from before may break it", quoted(check.name), v.named())
		}
	}
	return nil
}

func (v *inspection) readChecks(ctx context.Context) ([]constraint, error) {
	rows, err := v.db.Query(ctx, checksSQL, v.rel.oid, v.state)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c constraint, err error) {
		err = row.Scan(&c.name, &c.expression, &c.valid)
		return c, err
	})
}

var quotedText = regexp.MustCompile(`'(?:[^']|'')*'`)

// otherStates returns undeclared states that the column may take, to be tried, and
// the declared ones that can be. Of a CHECK, all texts in it are candidates.
func (v *inspection) otherStates(c column) (others, declared []State) {
	if c.enum != "" {
		for _, label := range c.labels {
			if s := State(label); v.has(s) {
				declared = append(declared, s)
			} else {
				others = append(others, s)
			}
		}
		return others, declared
	}
	others = []State{outsider}
	for _, check := range v.checks {
		for _, text := range quotedText.FindAllString(check.expression, -1) {
			s := State(strings.ReplaceAll(text[1:len(text)-1], "''", "'"))
			if !v.has(s) && !slices.Contains(others, s) {
				others = append(others, s)
			}
		}
	}
	return others, v.states
}

// taken returns for each state which of the checks take it.
func (v *inspection) taken(ctx context.Context, c column, states []State) (map[State][]bool, error) {
	stateType := c.enum
	if stateType == "" {
		stateType = "text"
	}
	tests := make([]string, len(v.checks))
	for i, check := range v.checks {
		tests[i] = "(" + check.expression + ") IS NOT FALSE"
	}
	sql := fmt.Sprintf("SELECT r.%[1]s::text, ARRAY[%[2]s]::boolean[] FROM (SELECT s::%[3]s AS %[1]s FROM pg_catalog.unnest($1::text[]) s) r",
		quoted(v.state), strings.Join(tests, ", "), stateType)
	rows, err := v.db.Query(ctx, sql, texts(states))
	if err != nil {
		return nil, err
	}
	taken := map[State][]bool{}
	var state string
	var by []bool
	_, err = pgx.ForEachRow(rows, []any{&state, &by}, func() error {
		taken[State(state)] = slices.Clone(by)
		return nil
	})
	return taken, err
}

// lacking tells the CHECKs that refuse declared states.
func (v *inspection) lacking(declared []State, taken map[State][]bool) {
	for i, check := range v.checks {
		var refused []State
		for _, s := range declared {
			if !taken[s][i] {
				refused = append(refused, s)
			}
		}
		if len(refused) > 0 {
			v.inTheWay = append(v.inTheWay, check.name)
			v.needCheck(true, "constraint %s of %s refuses the declared %s", quoted(check.name), v.named(), naming(refused))
		}
	}
}

// admitted tells undeclared states that no CHECK refuses.
func (v *inspection) admitted(c column, others []State, taken map[State][]bool) {
	var admitted []State
	for _, s := range others {
		if !slices.Contains(taken[s], false) {
			admitted = append(admitted, s)
		}
	}
	switch {
	case len(admitted) == 0:
	case c.enum != "":
		v.needCheck(false, "enum %s of column %s has the undeclared %s, and no CHECK refuses it", c.enum, quoted(v.state), naming(admitted))
	case slices.Contains(admitted, outsider):
		v.needCheck(false, "no CHECK of column %s of %s refuses states that are not declared", quoted(v.state), v.named())
	default:
		v.needCheck(false, "the CHECK of column %s of %s takes the undeclared %s", quoted(v.state), v.named(), naming(admitted))
	}
}

func naming(states []State) string {
	texts := make([]string, len(states))
	for i, s := range states {
		texts[i] = shown(string(s))
	}
	if len(texts) == 1 {
		return "state " + texts[0]
	}
	return "states " + strings.Join(texts, ", ")
}

// needCheck adds a finding that the CHECK of DDL mends.
func (v *inspection) needCheck(fatal bool, problem string, args ...any) {
	v.remakesCheck = true
	v.add(Finding{Problem: fmt.Sprintf(problem, args...), Cure: v.newCheck(), Fatal: fatal})
}

// newCheck is the CHECK of DDL. It is validated at once where no row is known to
// break it.
func (v *inspection) newCheck() string {
	sql := v.checkDDL(v.inTheWay...)
	if len(v.tally.strays) == 0 {
		sql += v.validateDDL()
	}
	return sql
}
