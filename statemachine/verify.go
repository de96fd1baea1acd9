package statemachine

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgcoord/pgcoord/internal/pgerr"
)

// Finding is one way in which the database is not what a machine declares.
type Finding struct {
	// Problem says what is wrong, with names and counts.
	Problem string
	// Cure are the statements that mend it, for the owner of the table; "" where
	// none can. Read before use: where rows must change, it puts them into an initial
	// state.
	Cure string
	// Fatal findings keep claims from being granted. The others cost speed, or a line
	// of defence.
	Fatal bool
}

// String returns the problem and its cure.
func (f Finding) String() string {
	if f.Cure == "" {
		return f.Problem
	}
	return f.Problem + "; mend it: " + f.Cure
}

// Verify compares the declaration with the database: the table and its columns,
// the CHECK or enum of states, the key, privileges of the current role, the
// indexes for o.Claimable, the triggers of DDL where there are any or o asks for
// them, and all rows. It reads the whole table and changes nothing.
//
// It returns what it found, in an order in which the cures can be run, each in
// a transaction of its own. It fails only where it could not look.
func (m *Machine) Verify(ctx context.Context, db DB, o DDLOptions) ([]Finding, error) {
	if err := o.check(m); err != nil {
		return nil, fmt.Errorf("statemachine: verify %s: %w", shown(m.name), err)
	}
	findings, err := m.inspect(ctx, db, o, true)
	if err != nil {
		return nil, pgerr.Describe("verify the table of machine", m.name, err)
	}
	return findings, nil
}

// check fails where claims would not be safe. It reads the catalogue alone.
func (m *Machine) check(ctx context.Context, db DB) error {
	findings, err := m.inspect(ctx, db, DDLOptions{}, false)
	if err != nil {
		return err
	}
	var faults []error
	for _, f := range findings {
		if f.Fatal {
			faults = append(faults, errors.New(f.String()))
		}
	}
	return errors.Join(faults...)
}

// inspection is a look at the database under way.
type inspection struct {
	*Machine
	db       DB
	o        DDLOptions
	rel      relation
	columns  map[string]column
	triggers map[string]trigger
	checks   []constraint // of the state column alone
	tally    tally
	findings []Finding

	inTheWay     []string // constraints that refuse declared states
	remakesCheck bool     // a cure makes the CHECK anew
}

// inspect looks at the database; with rows, at those and at what only Verify tells.
func (m *Machine) inspect(ctx context.Context, db DB, o DDLOptions, rows bool) ([]Finding, error) {
	v := &inspection{Machine: m, db: db, o: o}
	usable, err := v.relation(ctx)
	if err != nil || !usable {
		return v.findings, err
	}
	if v.columns, err = v.readColumns(ctx); err != nil {
		return nil, err
	}
	if v.triggers, err = v.readTriggers(ctx); err != nil {
		return nil, err
	}
	if v.checks, err = v.readChecks(ctx); err != nil {
		return nil, err
	}
	if rows {
		if err := v.count(ctx); err != nil {
			return nil, err
		}
	}
	v.privilegeFaults()
	v.storageFaults()
	v.keyFaults()
	v.stateFaults()
	v.tokenFaults()
	v.uniquenessFaults()
	if err := v.checkFaults(ctx); err != nil {
		return nil, err
	}
	v.rowFaults()
	if rows {
		err = v.indexFaults(ctx)
		v.triggerFaults()
	}
	return v.findings, err
}

func (v *inspection) add(f Finding) { v.findings = append(v.findings, f) }

// fatal adds a finding that keeps claims from being granted.
func (v *inspection) fatal(cure, problem string, args ...any) {
	v.add(Finding{Problem: fmt.Sprintf(problem, args...), Cure: cure, Fatal: true})
}

// warn adds a finding that does not.
func (v *inspection) warn(cure, problem string, args ...any) {
	v.add(Finding{Problem: fmt.Sprintf(problem, args...), Cure: cure})
}

// named returns the table for a text.
func (m *Machine) named() string { return written(m.table...) }
