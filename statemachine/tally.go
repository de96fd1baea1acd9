package statemachine

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// mostStrays is how many undeclared states Verify tells one by one.
const mostStrays = 100

// tally is what was counted in the rows.
type tally struct {
	strays    []stray
	nullState int64
	nullToken int64
	nullKey   int64
	badKey    int64 // longer than a key may be, or empty
}

// stray is an undeclared state with its rows.
type stray struct {
	state string
	rows  int64
}

const straysSQL = `
SELECT s.state, pg_catalog.count(*)
  FROM (SELECT %s AS state FROM %s t) s
 WHERE s.state <> ALL ($1::text[])
 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT $2`

const rowsSQL = `SELECT %s FROM %s t`

// count counts rows, of the columns that are there and may be read.
func (v *inspection) count(ctx context.Context) error {
	readable := func(names ...string) bool {
		for _, name := range names {
			if c, found := v.columns[name]; !found || !c.mayRead || !v.rel.mayUse {
				return false
			}
		}
		return true
	}
	counts := []string{"0", "0", "0", "0"}
	if readable(v.state) {
		counts[0] = "pg_catalog.count(*) FILTER (WHERE t." + quoted(v.state) + " IS NULL)"
		if err := v.countStrays(ctx); err != nil {
			return err
		}
	}
	if v.token != "" && readable(v.token) {
		counts[1] = "pg_catalog.count(*) FILTER (WHERE t." + quoted(v.token) + " IS NULL)"
	}
	if readable(v.key...) {
		key := v.keySQL("t")
		counts[2] = "pg_catalog.count(*) FILTER (WHERE " + key + " IS NULL)"
		counts[3] = "pg_catalog.count(*) FILTER (WHERE pg_catalog.octet_length(" + key + ") NOT BETWEEN 1 AND 512)"
	}
	if strings.Join(counts, "") == "0000" {
		return nil
	}
	r := &v.tally
	sql := fmt.Sprintf(rowsSQL, strings.Join(counts, ", "), v.from())
	return v.db.QueryRow(ctx, sql).Scan(&r.nullState, &r.nullToken, &r.nullKey, &r.badKey)
}

func (v *inspection) countStrays(ctx context.Context) error {
	sql := fmt.Sprintf(straysSQL, exactly("t", v.state), v.from())
	rows, err := v.db.Query(ctx, sql, texts(v.states), mostStrays+1)
	if err != nil {
		return err
	}
	v.tally.strays, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s stray, err error) {
		err = row.Scan(&s.state, &s.rows)
		return s, err
	})
	return err
}

// rowFaults tells what was counted. Rows are mended after the CHECK was replaced,
// which could refuse their new state, and before it is validated.
func (v *inspection) rowFaults() {
	first := literal(string(v.initial[0]))
	if c, found := v.columns[v.state]; found && !c.notNull {
		v.fatal(v.mend("SET "+quoted(v.state)+" = "+first+" WHERE "+quoted(v.state)+" IS NULL")+v.alter(v.state, "SET NOT NULL"),
			"state column %s of %s allows NULL%s; NULL is no state", quoted(v.state), v.named(), inRows(v.tally.nullState))
	}
	if c, found := v.columns[v.token]; found && !c.notNull {
		v.fatal(v.mend("SET "+quoted(v.token)+" = 0 WHERE "+quoted(v.token)+" IS NULL")+v.alter(v.token, "SET NOT NULL, ALTER COLUMN "+quoted(v.token)+" SET DEFAULT 0"),
			"token column %s of %s allows NULL%s; NULL fences nobody", quoted(v.token), v.named(), inRows(v.tally.nullToken))
	}
	for i, s := range v.tally.strays {
		where := exactly("t", v.state) + " = " + literal(s.state)
		problem := fmt.Sprintf("%s of %s in state %s, which is not declared", rowsOf(s.rows), v.named(), shown(s.state))
		if i == mostStrays {
			where = exactly("t", v.state) + " NOT IN (" + literals(v.states) + ")"
			problem = fmt.Sprintf("more rows of %s in states that are not declared", v.named())
		}
		cure := v.mend("AS t SET " + quoted(v.state) + " = " + first + " WHERE " + where)
		if i == len(v.tally.strays)-1 && v.remakesCheck {
			cure += v.validateDDL()
		}
		v.warn(cure, "%s", problem)
	}
	if n := v.tally.badKey; n > 0 {
		v.warn("", "the key of %s of %s is empty or longer than 512 bytes; they cannot be claimed", rowsOf(n), v.named())
	}
}

// mend returns the statement that changes rows, also those that the guard
// would not let out of their state.
func (v *inspection) mend(change string) string {
	return v.pastTriggers("UPDATE " + v.from() + " " + change + ";\n")
}

func inRows(n int64) string {
	if n == 0 {
		return ""
	}
	return ", and " + rowsOf(n) + " have it"
}

func rowsOf(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
