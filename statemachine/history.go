package statemachine

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/pgerr"
)

// Event is a transition that was recorded.
type Event struct {
	From, To State
	Token    int64 // in the token column after it; 0 when the table has none
	Metadata map[string]string
	At       time.Time // by the database's clock
}

// In the order of id, which the transitions of a row draw under its lock.
const historySQL = `
SELECT from_state, to_state, coalesce(token, 0), metadata, at FROM pgcoord.transitions
 WHERE machine = $1::text AND key = $2::text ORDER BY id`

// History returns the recorded transitions of key, in the order in which they were
// made; none for a key that has none, or no row. See TransitionOptions.Record.
//
// It fails with pgcoord.ErrInvalidKey when key is not the canonical text of one.
func (m *Machine) History(ctx context.Context, db DB, key string) ([]Event, error) {
	events, err := m.history(ctx, db, key)
	return events, pgerr.Describe(fmt.Sprintf("statemachine %s: history of", m.name), key, err)
}

func (m *Machine) history(ctx context.Context, db DB, key string) ([]Event, error) {
	if _, err := placeOf(db); err != nil {
		return nil, err
	}
	shape, err := m.shapeIn(ctx, db)
	if err != nil {
		return nil, err
	}
	if _, err := shape.splitKey(key); err != nil {
		return nil, err
	}
	rows, err := db.Query(ctx, historySQL, m.name, key)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Event])
}
