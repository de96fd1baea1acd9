package statemachine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// DDLOptions choose what DDL writes, and what Verify expects. The zero value adds
// the columns and the CHECK to a table that exists.
type DDLOptions struct {
	// KeyTypes are the types of the key columns: text, varchar, uuid, smallint,
	// integer or bigint, one for each. With them DDL makes the table, with the key as
	// its primary key, where it does not exist.
	KeyTypes []string
	// Claimable are the states in which rows wait to be claimed. Each gets a partial
	// index on the key columns.
	Claimable []State
	// Trigger lets the database itself refuse, from every client, edges that are not
	// declared, rows born in a state that is not initial, and tokens that fall. The
	// refusal has SQLSTATE PGC03.
	Trigger bool
	// Notify tells those who wait for work of rows that come into a state of
	// Claimable, whoever writes them. Without it they find rows that were not written
	// through this package at their next look.
	Notify bool
}

// DDL returns the statements that make the table as the machine needs it, for a
// migration of the application. They can be run again, over a table that has some
// of it, and after a change of the definition.
//
// Validating the CHECK and building indexes read the whole table. For a large one
// that is in use, make the indexes before, with CONCURRENTLY, under the same names.
//
// It fails when a field of o is not of this machine, which the error names.
func (m *Machine) DDL(o DDLOptions) (string, error) {
	if err := o.check(m); err != nil {
		return "", fmt.Errorf("statemachine: DDL of %s: %w", shown(m.name), err)
	}
	var parts []string
	if len(o.KeyTypes) > 0 {
		parts = append(parts, m.tableDDL(o.KeyTypes))
	}
	parts = append(parts, m.columnsDDL(), m.checkDDL()+m.validateDDL())
	for _, s := range o.Claimable {
		parts = append(parts, m.indexDDL(s))
	}
	if o.Trigger {
		parts = append(parts, m.guardDDL())
	}
	if o.Notify {
		parts = append(parts, m.wakeDDL(o.Claimable))
	}
	return strings.Join(parts, "\n"), nil
}

// UndoDDL returns the statements that take away what DDL made: triggers, their
// functions, indexes and the CHECK. The table and its columns stay: they are data.
func (m *Machine) UndoDDL() string {
	var b strings.Builder
	b.WriteString(m.dropTriggers())
	for _, name := range []string{m.guardFunction(), m.wakeFunction()} {
		fmt.Fprintf(&b, "DROP FUNCTION IF EXISTS %s();\n", m.beside(name))
	}
	for _, s := range m.states {
		fmt.Fprintf(&b, "DROP INDEX IF EXISTS %s;\n", m.beside(m.indexName(s)))
	}
	fmt.Fprintf(&b, "ALTER TABLE IF EXISTS %s DROP CONSTRAINT IF EXISTS %s;\n", m.from(), quoted(m.checkName()))
	return b.String()
}

func (o DDLOptions) check(m *Machine) error {
	var faults []error
	if n := len(o.KeyTypes); n > 0 && n != len(m.key) {
		faults = append(faults, fmt.Errorf("DDLOptions.KeyTypes has %d types, the key has %d columns", n, len(m.key)))
	}
	for i, t := range o.KeyTypes {
		if t == "varchar" {
			continue
		}
		if _, err := keyTypeOf(t); err != nil {
			faults = append(faults, fmt.Errorf("DDLOptions.KeyTypes[%d]: %s cannot be a key; it must be text, varchar, uuid, smallint, integer or bigint", i, shown(t)))
		}
	}
	for i, s := range o.Claimable {
		switch {
		case !m.has(s):
			faults = append(faults, fmt.Errorf("DDLOptions.Claimable[%d]: %s is not a state of the machine", i, shown(string(s))))
		case slices.Index(o.Claimable, s) < i:
			faults = append(faults, fmt.Errorf("DDLOptions.Claimable[%d]: %s is named twice", i, shown(string(s))))
		}
	}
	if o.Notify && len(o.Claimable) == 0 {
		faults = append(faults, errors.New("DDLOptions.Notify is set, but Claimable is empty"))
	}
	return errors.Join(faults...)
}

func (m *Machine) tableDDL(types []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (\n", m.from())
	for i, column := range m.key {
		fmt.Fprintf(&b, "    %s %s NOT NULL,\n", quoted(column), types[i])
	}
	fmt.Fprintf(&b, "    PRIMARY KEY (%s)\n);\n", columns(m.key))
	return b.String()
}

func (m *Machine) columnsDDL() string {
	state := "text NOT NULL"
	if len(m.initial) == 1 {
		state += " DEFAULT " + literal(string(m.initial[0]))
	}
	ddl := m.addColumn(m.state, state)
	if m.token != "" {
		ddl += m.addColumn(m.token, "bigint NOT NULL DEFAULT 0")
	}
	return ddl
}

func (m *Machine) addColumn(column, definition string) string {
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s %s;\n", m.from(), quoted(column), definition)
}

// checkDDL adds the CHECK of states, in place of an older one and of others that
// are in its way.
func (m *Machine) checkDDL(others ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ALTER TABLE %s\n", m.from())
	for _, name := range append(others, m.checkName()) {
		fmt.Fprintf(&b, "    DROP CONSTRAINT IF EXISTS %s,\n", quoted(name))
	}
	fmt.Fprintf(&b, "    ADD CONSTRAINT %s CHECK (%s IN (%s)) NOT VALID;\n", quoted(m.checkName()), quoted(m.state), literals(m.states))
	return b.String()
}

func (m *Machine) validateDDL() string {
	return fmt.Sprintf("ALTER TABLE %s VALIDATE CONSTRAINT %s;\n", m.from(), quoted(m.checkName()))
}

func (m *Machine) indexDDL(s State) string {
	return fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s) WHERE %s = %s;\n",
		quoted(m.indexName(s)), m.from(), columns(m.key), quoted(m.state), literal(string(s)))
}
