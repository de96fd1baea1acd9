package statemachine

import (
	"context"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is what a verb needs of a database: a pool, a connection or a transaction of
// pgx.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Machine is a checked definition. It is safe for concurrent use.
type Machine struct {
	name    string
	table   pgx.Identifier
	key     []string
	state   string
	token   string // "" for a table without one
	states  []State
	edges   map[State][]State // in the order of their declaration
	initial []State

	mu    sync.Mutex
	known *shape
}

// Name returns the name of the machine.
func (m *Machine) Name() string { return m.name }

// States returns all declared states, in the order of their first mention.
func (m *Machine) States() []State { return slices.Clone(m.states) }

// Allows reports whether the edge is declared.
func (m *Machine) Allows(from, to State) bool { return slices.Contains(m.edges[from], to) }

// final reports whether no edge leaves s.
func (m *Machine) final(s State) bool { return len(m.edges[s]) == 0 }

// has reports whether s is declared.
func (m *Machine) has(s State) bool { return slices.Contains(m.states, s) }

// quoted returns a column as SQL writes it.
func quoted(column string) string { return pgx.Identifier{column}.Sanitize() }

// from returns the table as SQL writes it.
func (m *Machine) from() string { return m.table.Sanitize() }
