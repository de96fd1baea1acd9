package statemachine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pgcoord/pgcoord/internal/statement"
)

// form is what the SQL of a transition depends on, for one machine.
type form struct {
	from                             int // states
	token, noWait, raise, record, op bool
}

func (v *move) form() form {
	return form{
		from: len(v.from), token: v.o.Token != 0, noWait: v.o.NoWait, raise: v.o.RaiseToken,
		record: v.o.Record || len(v.o.Metadata) > 0, op: v.op != nil,
	}
}

// locks reports whether the row is locked before anything is computed: a token is
// drawn, an operation marked and the old state read only by who will move the row.
func (f form) locks() bool { return f.noWait || f.raise || f.op || f.from > 1 }

// args returns the arguments of statement, in the order of places.
func (v *move) args(f form) []any {
	args := make([]any, 0, len(v.parts)+f.from+8)
	for _, part := range v.parts {
		args = append(args, part)
	}
	args = append(args, string(v.to))
	for _, s := range v.from {
		args = append(args, string(s))
	}
	if f.token {
		args = append(args, strconv.FormatInt(v.o.Token, 10))
	}
	if f.record {
		args = append(args, v.m.name, v.key, v.metadata)
	}
	if f.op {
		args = append(args, v.op.Domain, v.op.Key, v.op.Operation)
	}
	return args
}

// places are the parameters in the SQL of a form.
type places struct {
	to, token string
	from      []string
	record    [3]string // machine, key, metadata
	op        [3]string // domain, key, id
}

func (f form) places(keys int) (p places) {
	n := keys
	next := func() string {
		n++
		return "$" + strconv.Itoa(n) + "::text"
	}
	p.to = next()
	for range f.from {
		p.from = append(p.from, next())
	}
	if f.token {
		p.token = next()
	}
	if f.record {
		p.record = [3]string{next(), next(), next()}
	}
	if f.op {
		p.op = [3]string{next(), next(), next()}
	}
	return p
}

// statement returns the one statement of a transition. It answers with the state
// from which the row was moved and its token; with no row, or with NULL where it
// has locked the row and not moved it.
//
// Guard: state, and token where asked, in the WHERE of the UPDATE or of the lock
// before it, which is checked again on the newest version of a row that had to be
// waited for. A key of two rows moves none of them.
func (m *Machine) statement(s *shape, f form) string {
	if known, ok := s.moves.Load(f); ok {
		return known.(string)
	}
	sql := m.plainSQL(s, f)
	if f.locks() {
		sql = m.lockingSQL(s, f)
	}
	s.moves.Store(f, sql)
	return sql
}

// plainSQL is the least that can work: the bare UPDATE, guarded.
func (m *Machine) plainSQL(s *shape, f form) string {
	p := f.places(len(m.key))
	sql := fmt.Sprintf("UPDATE %s t SET %s = %s::%s\n WHERE %s\nRETURNING %s AS was, %s AS token",
		m.from(), quoted(m.state), p.to, s.stateType, m.movable(s, f, p), p.from[0], m.tokenOf("t"))
	if f.record {
		sql = "WITH u AS (\n" + sql + "\n)" + recordSQL(p) + "\nSELECT u.was, u.token FROM u"
	}
	return sql
}

// lockingSQL locks the row first.
func (m *Machine) lockingSQL(s *shape, f form) string {
	p := f.places(len(m.key))
	columns := m.keyColumns("t") + ", t." + quoted(m.state)
	if m.token != "" {
		columns += ", t." + quoted(m.token)
	}
	lock, mark, raise, sources, record, kept := "FOR NO KEY UPDATE", "", "", "l", "", ""
	if f.noWait {
		lock += " SKIP LOCKED"
	}
	if f.op {
		sources = "l, m"
		// Waits on the unique index for whoever decides the same operation.
		mark = fmt.Sprintf(`, m AS (
  INSERT INTO pgcoord.operations (domain, key, operation_id, token, applied)
  SELECT %s, %s, %s, coalesce(%s, 0), true FROM l ON CONFLICT DO NOTHING RETURNING true
)`, p.op[0], p.op[1], p.op[2], m.tokenOf("l"))
		// Where a trigger kept the row, the mark of the operation must not commit.
		kept = "\n WHERE CASE WHEN u.was IS NULL AND EXISTS (SELECT FROM m) THEN pgcoord.require_one((SELECT count(*) FROM u)) = 1 ELSE true END"
	}
	if f.raise {
		raise = fmt.Sprintf(", %[1]s = greatest(l.%[1]s + 1, pgcoord.next_fencing_token())", quoted(m.token))
	}
	if f.record {
		record = recordSQL(p)
	}
	return fmt.Sprintf("WITH l AS MATERIALIZED (\n  SELECT %s FROM %s t\n   WHERE %s\n     %s\n)%s",
		columns, m.from(), m.movable(s, f, p), lock, mark) +
		fmt.Sprintf(", u AS (\n  UPDATE %s t SET %s = %s::%s%s\n    FROM %s WHERE %s\n  RETURNING l.%s::text AS was, %s AS token\n)",
			m.from(), quoted(m.state), p.to, s.stateType, raise, sources, m.keyMatch(s, "t", 1), quoted(m.state), m.tokenOf("t")) +
		record + "\nSELECT u.was, u.token FROM l LEFT JOIN u ON true" + kept
}

// recordSQL records the transition, if there was one.
func recordSQL(p places) string {
	return fmt.Sprintf(`, h AS (
  INSERT INTO pgcoord.transitions (machine, key, from_state, to_state, token, metadata)
  SELECT %s, %s, u.was, %s, u.token, %s::jsonb FROM u
)`, p.record[0], p.record[1], p.to, p.record[2])
}

// movable is what a row must fulfil to be moved. The count is there for a key that
// is not unique: only rows that it has counted can be changed.
func (m *Machine) movable(s *shape, f form, p places) string {
	from := make([]string, len(p.from))
	for i, place := range p.from {
		from[i] = place + "::" + s.stateType
	}
	condition := fmt.Sprintf("%s AND t.%s IN (%s)", m.keyMatch(s, "t", 1), quoted(m.state), strings.Join(from, ", "))
	if !s.unique {
		condition += fmt.Sprintf(" AND (SELECT count(*) FROM %s o WHERE %s) = 1", m.from(), m.keyMatch(s, "o", 1))
	}
	if f.token {
		condition += fmt.Sprintf(" AND t.%s = %s::bigint", quoted(m.token), p.token)
	}
	return condition + " AND " + statement.Durable + " IS NOT NULL"
}

// look returns the statement that tells what stands there now: the state and token
// of the row, and whether the operation was applied.
func (v *move) look() (string, []any) {
	sql := fmt.Sprintf("SELECT t.%s::text, %s, NULL::boolean FROM %s t WHERE %s",
		quoted(v.m.state), v.m.tokenOf("t"), v.m.from(), v.m.keyMatch(v.shape, "t", 1))
	args := make([]any, 0, len(v.parts)+3)
	for _, part := range v.parts {
		args = append(args, part)
	}
	if v.op != nil {
		n := len(args)
		sql += fmt.Sprintf("\nUNION ALL SELECT NULL, NULL, o.applied FROM pgcoord.operations o WHERE o.domain = $%d::text AND o.key = $%d::text AND o.operation_id = $%d::text",
			n+1, n+2, n+3)
		args = append(args, v.op.Domain, v.op.Key, v.op.Operation)
	}
	return sql, args
}

// tokenOf returns alias's token, NULL for a table without one.
func (m *Machine) tokenOf(alias string) string {
	if m.token == "" {
		return "NULL::bigint"
	}
	return alias + "." + quoted(m.token)
}
