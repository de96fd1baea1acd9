package statemachine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// shape is what the statements need to know of the live table.
type shape struct {
	keyTypes  []keyType
	stateType string // as SQL writes it
	unique    bool   // the key, for all rows

	moves sync.Map // SQL of transitions, by form
}

// shapeSQL reads the types of columns, of a domain those of its base.
const shapeSQL = `
SELECT a.attname::text,
       pg_catalog.format_type(CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END, NULL),
       CASE WHEN t.typtype = 'e' THEN pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(t.typname) ELSE '' END
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
 WHERE a.attrelid = pg_catalog.to_regclass($1::text) AND a.attnum > 0 AND NOT a.attisdropped`

// shapeIn reads the shape of the table, once.
func (m *Machine) shapeIn(ctx context.Context, db DB) (*shape, error) {
	m.mu.Lock()
	known := m.known
	m.mu.Unlock()
	if known != nil {
		return known, nil
	}
	types, enums, err := m.columnTypes(ctx, db)
	if err != nil {
		return nil, err
	}
	s := &shape{stateType: "text"}
	for _, column := range m.key {
		t, err := keyTypeOf(types[column])
		if err != nil {
			return nil, fmt.Errorf("key column %s of %s: %w", quoted(column), m.from(), err)
		}
		s.keyTypes = append(s.keyTypes, t)
	}
	switch {
	case types[m.state] == "":
		return nil, fmt.Errorf("table %s has no column %s for the state", m.from(), quoted(m.state))
	case enums[m.state] != "":
		s.stateType = enums[m.state]
	}
	if s.unique, err = m.keyIsUnique(ctx, db); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.known = s
	m.mu.Unlock()
	return s, nil
}

func (m *Machine) columnTypes(ctx context.Context, db DB) (types, enums map[string]string, err error) {
	rows, err := db.Query(ctx, shapeSQL, m.from())
	if err != nil {
		return nil, nil, err
	}
	types, enums = map[string]string{}, map[string]string{}
	var column, typ, enum string
	_, err = pgx.ForEachRow(rows, []any{&column, &typ, &enum}, func() error {
		types[column], enums[column] = typ, enum
		return nil
	})
	if err == nil && len(types) == 0 {
		err = fmt.Errorf("there is no table %s", m.from())
	}
	return types, enums, err
}

func keyTypeOf(sqlType string) (keyType, error) {
	switch sqlType {
	case "":
		return "", errors.New("there is no such column")
	case "text", "character varying":
		return textKey, nil
	case "smallint", "integer", "bigint", "uuid":
		return keyType(sqlType), nil
	}
	return "", fmt.Errorf("type %s cannot be a key; it must be text, varchar, uuid, smallint, integer or bigint", sqlType)
}

// keyMatch returns the condition that alias's row has the key whose parts are the
// parameters from first on.
func (m *Machine) keyMatch(s *shape, alias string, first int) string {
	conditions := make([]string, len(m.key))
	for i, column := range m.key {
		conditions[i] = fmt.Sprintf("%s.%s = $%d::text::%s", alias, quoted(column), first+i, s.keyTypes[i])
	}
	return strings.Join(conditions, " AND ")
}

// keyParsed returns the condition that alias's row has the key whose canonical text
// is the value of expression.
func (m *Machine) keyParsed(s *shape, alias, expression string) string {
	if len(m.key) == 1 {
		return fmt.Sprintf("%s.%s = %s::%s", alias, quoted(m.key[0]), expression, s.keyTypes[0])
	}
	conditions := make([]string, len(m.key))
	for i, column := range m.key {
		conditions[i] = fmt.Sprintf("%s.%s = (%s::json ->> %d)::%s", alias, quoted(column), expression, i, s.keyTypes[i])
	}
	return strings.Join(conditions, " AND ")
}

// sameKey returns the condition that two aliases have the same key columns.
func (m *Machine) sameKey(a, b string) string {
	conditions := make([]string, len(m.key))
	for i, column := range m.key {
		conditions[i] = fmt.Sprintf("%s.%s = %s.%s", a, quoted(column), b, quoted(column))
	}
	return strings.Join(conditions, " AND ")
}

// keyColumns returns alias's key columns, separated by commas.
func (m *Machine) keyColumns(alias string) string {
	columns := make([]string, len(m.key))
	for i, column := range m.key {
		columns[i] = alias + "." + quoted(column)
	}
	return strings.Join(columns, ", ")
}

// keySQL returns an expression for the canonical key of alias's row; see joinKey.
func (m *Machine) keySQL(alias string) string {
	if len(m.key) == 1 {
		return alias + "." + quoted(m.key[0]) + "::text"
	}
	parts := make([]string, len(m.key))
	for i, column := range m.key {
		parts[i] = fmt.Sprintf("pg_catalog.to_json(%s.%s::text)::text", alias, quoted(column))
	}
	return "('[' || " + strings.Join(parts, " || ',' || ") + " || ']')"
}
