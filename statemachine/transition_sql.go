package statemachine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pgcoord/pgcoord/internal/statement"
)

// query is SQL under construction, with its arguments.
type query struct {
	strings.Builder
	args []any
}

// arg adds an argument and returns its place, as text.
func (q *query) arg(v any) string {
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args)) + "::text"
}

func (q *query) writef(format string, args ...any) { fmt.Fprintf(q, format, args...) }

// query begins a query whose first arguments are the values of the key.
func (v *move) query() *query {
	q := &query{args: make([]any, 0, len(v.parts)+10)}
	for _, part := range v.parts {
		q.arg(part)
	}
	return q
}

// statement returns the one statement of a transition. It answers with the state
// from which the row was moved and its token; with no row, or with NULL where it
// has locked the row and not moved it.
//
// Guard: state, and token where asked, in the WHERE of the UPDATE or of the lock
// before it, which is checked again on the newest version of a row that had to be
// waited for. A key of two rows moves none of them.
func (v *move) statement() (string, []any) {
	q := v.query()
	switch {
	case v.o.NoWait || v.o.RaiseToken || v.op != nil || len(v.from) > 1:
		v.writeLocking(q)
		v.writeRecord(q)
		q.WriteString("\nSELECT u.was, u.token FROM l LEFT JOIN u ON true")
		if v.op != nil {
			// Where a trigger kept the row, the mark of the operation must not commit.
			q.WriteString("\n WHERE CASE WHEN u.was IS NULL AND EXISTS (SELECT FROM m) THEN pgcoord.require_one((SELECT count(*) FROM u)) = 1 ELSE true END")
		}
	case v.records():
		q.WriteString("WITH u AS (\n  ")
		v.writePlain(q)
		q.WriteString("\n)")
		v.writeRecord(q)
		q.WriteString("\nSELECT u.was, u.token FROM u")
	default:
		v.writePlain(q)
	}
	return q.String(), q.args
}

// writePlain writes the least that can work: the bare UPDATE, guarded.
func (v *move) writePlain(q *query) {
	q.writef("UPDATE %s t SET %s = %s::%s\n WHERE %s\nRETURNING %s AS was, %s AS token",
		v.m.from(), quoted(v.m.state), q.arg(string(v.to)), v.shape.stateType, v.condition(q), q.arg(string(v.from[0])), v.tokenOf("t"))
}

// writeLocking locks the row before it computes anything: a token is drawn, an
// operation marked and the old state read only by who will move the row.
func (v *move) writeLocking(q *query) {
	columns := v.m.keyColumns("t") + ", t." + quoted(v.m.state)
	if v.m.token != "" {
		columns += ", t." + quoted(v.m.token)
	}
	q.writef("WITH l AS MATERIALIZED (\n  SELECT %s FROM %s t\n   WHERE %s\n     FOR NO KEY UPDATE", columns, v.m.from(), v.condition(q))
	if v.o.NoWait {
		q.WriteString(" SKIP LOCKED")
	}
	q.WriteString("\n)")
	sources := "l"
	if v.op != nil {
		sources = "l, m"
		// Waits on the unique index for whoever decides the same operation.
		q.writef(`, m AS (
  INSERT INTO pgcoord.operations (domain, key, operation_id, token, applied)
  SELECT %s, %s, %s, coalesce(%s, 0), true FROM l ON CONFLICT DO NOTHING RETURNING true
)`, q.arg(v.op.Domain), q.arg(v.op.Key), q.arg(v.op.Operation), v.tokenOf("l"))
	}
	raise := ""
	if v.o.RaiseToken {
		token := quoted(v.m.token)
		raise = fmt.Sprintf(", %s = greatest(l.%s + 1, pgcoord.next_fencing_token())", token, token)
	}
	q.writef(", u AS (\n  UPDATE %s t SET %s = %s::%s%s\n    FROM %s WHERE %s\n  RETURNING l.%s::text AS was, %s AS token\n)",
		v.m.from(), quoted(v.m.state), q.arg(string(v.to)), v.shape.stateType, raise,
		sources, v.m.keyMatch(v.shape, "t", 1), quoted(v.m.state), v.tokenOf("t"))
}

// writeRecord writes the insert of the transition's record, if it has one.
func (v *move) writeRecord(q *query) {
	if !v.records() {
		return
	}
	q.writef(`, h AS (
  INSERT INTO pgcoord.transitions (machine, key, from_state, to_state, token, metadata)
  SELECT %s, %s, u.was, %s, u.token, %s::jsonb FROM u
)`, q.arg(v.m.name), q.arg(v.key), q.arg(string(v.to)), q.arg(v.metadata))
}

// condition returns what a row must fulfil to be moved. The count is there for a
// key that is not unique: only rows that it has counted can be changed.
func (v *move) condition(q *query) string {
	from := make([]string, len(v.from))
	for i, s := range v.from {
		from[i] = q.arg(string(s)) + "::" + v.shape.stateType
	}
	condition := fmt.Sprintf("%s AND t.%s IN (%s)", v.m.keyMatch(v.shape, "t", 1), quoted(v.m.state), strings.Join(from, ", "))
	if !v.shape.unique {
		condition += fmt.Sprintf(" AND (SELECT count(*) FROM %s o WHERE %s) = 1", v.m.from(), v.m.keyMatch(v.shape, "o", 1))
	}
	if v.o.Token != 0 {
		condition += fmt.Sprintf(" AND t.%s = %s::bigint", quoted(v.m.token), q.arg(strconv.FormatInt(v.o.Token, 10)))
	}
	return condition + " AND " + statement.Durable + " IS NOT NULL"
}

// look returns the statement that tells what stands there now: the state and token
// of the row, and whether the operation was applied.
func (v *move) look() (string, []any) {
	q := v.query()
	q.writef("SELECT t.%s::text, %s, NULL::boolean FROM %s t WHERE %s", quoted(v.m.state), v.tokenOf("t"), v.m.from(), v.m.keyMatch(v.shape, "t", 1))
	if v.op != nil {
		q.writef("\nUNION ALL SELECT NULL, NULL, o.applied FROM pgcoord.operations o WHERE o.domain = %s AND o.key = %s AND o.operation_id = %s",
			q.arg(v.op.Domain), q.arg(v.op.Key), q.arg(v.op.Operation))
	}
	return q.String(), q.args
}

// tokenOf returns alias's token, NULL for a table without one.
func (v *move) tokenOf(alias string) string {
	if v.m.token == "" {
		return "NULL::bigint"
	}
	return alias + "." + quoted(v.m.token)
}
