package statemachine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

const (
	maxName       = 128 // bytes of a machine's or a state's name
	maxKeyColumns = 32  // as PostgreSQL allows in an index

	// noToken is Definition.TokenColumn for a table that has none.
	noToken = "-"
)

// Define checks d and returns its machine. It sends nothing: whether the table is
// as declared, Verify tells.
//
// Its error tells all faults of d, each with the field and the value.
func Define(d Definition) (*Machine, error) {
	d = d.withDefaults()
	table, err := d.table()
	name, nameErr := d.name(table)
	err = errors.Join(err, nameErr, d.checkColumns(), d.checkGraph())
	if err != nil {
		return nil, fmt.Errorf("statemachine: define: %w", err)
	}
	m := &Machine{
		name: name, table: table, key: slices.Clone(d.Key), state: d.StateColumn,
		states: d.states(), edges: map[State][]State{}, initial: slices.Clone(d.Initial),
	}
	if d.TokenColumn != noToken {
		m.token = d.TokenColumn
	}
	for _, t := range d.Transitions {
		m.edges[t.From] = append(m.edges[t.From], t.To)
	}
	return m, nil
}

func (d Definition) withDefaults() Definition {
	if len(d.Key) == 0 {
		d.Key = []string{"id"}
	}
	if d.StateColumn == "" {
		d.StateColumn = "status"
	}
	if d.TokenColumn == "" {
		d.TokenColumn = "fencing_token"
	}
	return d
}

func (d Definition) table() (pgx.Identifier, error) {
	if d.Table == "" {
		return nil, errors.New("Definition.Table is empty")
	}
	table, err := parseTable(d.Table)
	if err != nil {
		return nil, fmt.Errorf("Definition.Table %w", err)
	}
	return table, nil
}

// name returns the machine's name; table is nil where it has a fault of its own.
func (d Definition) name(table pgx.Identifier) (string, error) {
	if d.Name != "" || table == nil {
		return d.Name, prefixed("Definition.Name", orEmpty(d.Name))
	}
	name := written(append(slices.Clone(table), d.StateColumn)...)
	if len(name) > maxName {
		return "", fmt.Errorf("Definition.Name must be given: the default, %s, has %d bytes, at most %d are allowed", shown(name), len(name), maxName)
	}
	return name, nil
}

// orEmpty checks a name that need not be given.
func orEmpty(name string) error {
	if name == "" {
		return nil
	}
	return checkText(name, maxName)
}

func prefixed(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}

func (d Definition) checkColumns() error {
	var faults []error
	uses := map[string]string{}
	use := func(field, column string) {
		if err := checkText(column, maxIdentifier); err != nil {
			faults = append(faults, prefixed(field, err))
			return
		}
		if before, twice := uses[column]; twice {
			faults = append(faults, fmt.Errorf("%s: column %s is %s as well", field, shown(column), before))
			return
		}
		uses[column] = field
	}
	if len(d.Key) > maxKeyColumns {
		faults = append(faults, fmt.Errorf("Definition.Key has %d columns, at most %d are allowed", len(d.Key), maxKeyColumns))
	}
	for i, column := range d.Key {
		use(fmt.Sprintf("Definition.Key[%d]", i), column)
	}
	use("Definition.StateColumn", d.StateColumn)
	if d.TokenColumn != noToken {
		use("Definition.TokenColumn", d.TokenColumn)
	}
	return errors.Join(faults...)
}
