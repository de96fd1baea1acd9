package statemachine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/keys"
	"github.com/pgcoord/pgcoord/internal/operation"
	"github.com/pgcoord/pgcoord/internal/pgerr"
)

// maxMetadata bounds TransitionOptions.Metadata as JSON, in bytes.
const maxMetadata = 4096

// TransitionOptions say more of one transition. The zero value moves the row and
// does nothing else.
type TransitionOptions struct {
	// Token, unless 0, has to stand in the token column too: only the claim of
	// that token moves the row. Needs a token column.
	Token int64
	// RaiseToken raises the token in the UPDATE that moves the row, as a claim
	// does, so that whatever compares tokens refuses all that came before. The new
	// one is Moved.Token. Needs a token column.
	RaiseToken bool
	// NoWait fails with pgcoord.ErrHeld at once where somebody has the row locked.
	// Default: wait for that transaction to end, as long as ctx lasts.
	NoWait bool
	// Record writes a row to pgcoord.transitions in the same statement; see
	// Machine.History.
	Record bool
	// Metadata is recorded with the transition, which sets Record, and handed to
	// After. At most 4,096 bytes as JSON.
	Metadata map[string]string
	// After runs once the transition has committed, and never if it does not: on a
	// pool or an idle connection before Transition returns, in a transaction when
	// its Hooks are run. In a transaction that has no Hooks it is refused. It does
	// not run when the process dies first, nor when the outcome is unknown: what
	// must not get lost belongs into the transaction.
	After func(ctx context.Context, moved Moved)
}

// Moved is a transition that has happened.
type Moved struct {
	Machine  string
	Key      string
	From, To State
	Token    int64 // in the token column; 0 when the table has none
	Metadata map[string]string
}

// Transition moves the row of key from one state to another by a single
// compare-and-set statement. A nil error says that this very call has moved the
// row; of many callers with the same from, one gets it.
//
// On a pool, or a connection without a transaction, the statement is a transaction
// of its own: READ COMMITTED, whatever the role's default is. In a transaction of
// the caller it moves the row when that commits. It is durable in both: where
// synchronous_commit is off or local, the transaction waits for the disk.
//
// It waits for a transaction that has the row locked, which may be moving it: it
// loses when that commits another state, and wins when that rolls back. See
// TransitionOptions.NoWait.
//
// It fails with
//   - pgcoord.ErrConflict, before anything is sent, when the edge is not declared;
//   - a *StateError, which tells where the row is: it matches pgcoord.ErrConflict
//     when that is another state, or one that a trigger keeps the row in, and
//     pgcoord.ErrLost when the row is under another token than
//     TransitionOptions.Token. A row that is in state to already is not moved
//     either: Now == To;
//   - pgcoord.ErrNotFound when there is no row of key, pgcoord.ErrInvalidKey when
//     key is not the canonical text of one;
//   - pgcoord.ErrConflict when key names more than one row;
//   - pgcoord.ErrConflict when the caller's REPEATABLE READ or SERIALIZABLE
//     transaction lost (SQLSTATE 40001), or the trigger that DDL makes refused the
//     row (PGC03); a transaction of the caller is aborted then;
//   - pgcoord.ErrHeld with NoWait, or when the session's own lock_timeout struck;
//   - pgcoord.ErrOutcomeUnknown when the reply was lost: the row may have moved. It
//     is not sent again.
//
// After any error but the last the row is as it was.
//
// # Operations
//
// On a pool or an idle connection, the id of pgcoord.WithOperation is stored by
// the same statement. A repetition fails with pgcoord.ErrDone, also when the row
// has come back to from meanwhile; so a lost reply is no risk, and the library
// sends the statement again by itself (ErrDone then: applied, by the lost one or
// an earlier call). A Coordinator of the machine resolves such an id. In a
// transaction of the caller the id is left alone: it names the whole transaction,
// and Claim.BeginFunc and Claim.Complete see to it.
//
// # Claims
//
// A plain transition asks no claim. It waits for a guarded transaction that is
// open; else it moves the row away from under a claim, which is lost by that: its
// guard compares the state. It neither raises nor lowers the token, and leaves the
// attempt's row to the reaper. Set TransitionOptions.Token to move a row only as
// its claim. A transition into the working state of a Step makes a row that works
// for nobody: no lease, and nothing to complete it with. Claim it instead; or raise
// the token at least, or else an older claim may find itself current again.
//
// A table without a token column has transitions alone: the compare-and-set keeps
// two callers from both moving a row, but there is no takeover from the dead, and
// nothing refuses the late write of one that was paused while the row went round
// and came back to the same state.
func (m *Machine) Transition(ctx context.Context, db DB, key string, from, to State, o TransitionOptions) (Moved, error) {
	return m.TransitionAny(ctx, db, key, []State{from}, to, o)
}

// TransitionAny is Transition from whichever of several states the row is in;
// Moved.From tells which it was. All edges must be declared.
func (m *Machine) TransitionAny(ctx context.Context, db DB, key string, from []State, to State, o TransitionOptions) (Moved, error) {
	moved, err := m.move(ctx, db, key, from, to, o)
	if err == nil {
		return moved, nil
	}
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		err = errors.Join(err, ctxErr)
	}
	return Moved{}, pgerr.Describe(fmt.Sprintf("statemachine %s: move to %q", m.name, to), key, err)
}

// move is one call of TransitionAny.
type move struct {
	m        *Machine
	key      string
	from     []State
	to       State
	o        TransitionOptions
	metadata string // JSON

	op    *operation.ID // of a statement that is its own transaction
	shape *shape
	parts []string // the values of the key columns
}

func (m *Machine) move(ctx context.Context, db DB, key string, from []State, to State, o TransitionOptions) (moved Moved, err error) {
	if err := ctx.Err(); err != nil {
		return moved, err
	}
	if err := errors.Join(keys.Check(key), m.checkEdges(from, to), m.checkOptions(o)); err != nil {
		return moved, err
	}
	v := &move{m: m, key: key, from: from, to: to, o: o}
	if v.metadata, err = metadataText(o.Metadata); err != nil {
		return moved, err
	}
	where, err := placeOf(db)
	if err != nil {
		return moved, err
	}
	after, err := v.after(ctx, where)
	if err != nil {
		return moved, err
	}
	if where.own {
		id, named, err := operation.From(ctx, m.operationDomain(), key)
		if err != nil {
			return moved, err
		}
		if named {
			v.op = &id
		}
	}
	if v.shape, err = m.shapeIn(ctx, db); err != nil {
		return moved, err
	}
	if v.parts, err = v.shape.splitKey(key); err != nil {
		return moved, err
	}
	if moved, err = v.run(ctx, where); err != nil {
		return moved, v.explained(err, where)
	}
	after(ctx, moved)
	return moved, nil
}

// operationDomain is what the keys of the machine's operations stand under in
// pgcoord.operations.
func (m *Machine) operationDomain() string { return "machine:" + m.name }

// checkEdges refuses edges that are not declared.
func (m *Machine) checkEdges(from []State, to State) error {
	if len(from) == 0 {
		return errors.New("no state to move from is given")
	}
	for _, f := range from {
		if f == to {
			return fmt.Errorf("%w: from %q to %q is no transition", pgcoord.ErrConflict, f, to)
		}
		if m.Allows(f, to) {
			continue
		}
		allowed := "no edge leaves that state"
		switch {
		case !m.has(f):
			allowed = fmt.Sprintf("there is no state %q", f)
		case !m.final(f):
			allowed = fmt.Sprintf("from %q a row may go to %s", f, list(m.edges[f]))
		}
		return fmt.Errorf("%w: the edge from %q to %q is not declared: %s", pgcoord.ErrConflict, f, to, allowed)
	}
	return nil
}

func (m *Machine) checkOptions(o TransitionOptions) error {
	switch {
	case o.Token < 0:
		return fmt.Errorf("TransitionOptions.Token is %d, it must be a token or 0", o.Token)
	case m.token == "" && o.Token != 0:
		return fmt.Errorf("TransitionOptions.Token needs a token column, and %s is declared without one", m.from())
	case m.token == "" && o.RaiseToken:
		return fmt.Errorf("TransitionOptions.RaiseToken needs a token column, and %s is declared without one", m.from())
	}
	return nil
}

// metadataText checks metadata and returns it as JSON.
func metadataText(metadata map[string]string) (string, error) {
	const field = "TransitionOptions.Metadata"
	if len(metadata) == 0 {
		return "{}", nil
	}
	for name, value := range metadata {
		if err := errors.Join(keys.CheckText(field, name, maxMetadata), keys.CheckText(field, value, maxMetadata)); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(metadata)
	if err == nil && len(text) > maxMetadata {
		err = fmt.Errorf("%s has %d bytes as JSON, at most %d are allowed", field, len(text), maxMetadata)
	}
	return string(text), err
}

// SQLSTATEs that say more here than elsewhere.
const (
	serializationFailure = "40001"
	lockNotAvailable     = "55P03"
)

// explained says of a server's error what it means here.
func (v *move) explained(err error, where place) error {
	switch code := pgerr.Code(err); code {
	case serializationFailure:
		if where.inside {
			return fmt.Errorf("%w: the transaction is aborted and must be rolled back: %w", pgcoord.ErrConflict, err)
		}
	case lockNotAvailable:
		return fmt.Errorf("%w: %w", &pgcoord.HeldError{Key: v.key}, err)
	case pgerr.Gone: // of require_one; not wrapped, because no claim is lost here
		return fmt.Errorf("%w: a trigger or policy keeps the row where it is, so the operation is not applied", pgcoord.ErrConflict)
	case "3F000", "42P01", "42883", "42703", "42501":
		if f := v.form(); !f.record && !f.raise && !f.op { // nothing of schema pgcoord took part
			return pgerr.Callers(err)
		}
	}
	return err
}

// moved is what the caller hears of a row that was moved.
func (v *move) moved(from State, token int64) Moved {
	return Moved{Machine: v.m.name, Key: v.key, From: from, To: v.to, Token: token, Metadata: v.o.Metadata}
}
