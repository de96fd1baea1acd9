package conformance

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgcoord/pgcoord"
)

// A check talks with a process of its own in lines of JSON: requests on its
// standard input, replies on its standard output. Replies may come out of order.
const (
	childEnv = "PGCOORD_CONFORMANCE_CHILD" // the strategy's name; set in a child
	orderEnv = "PGCOORD_CONFORMANCE_ORDER" // how the child is set up
)

// order is how a child is set up.
type order struct {
	DSN    string
	Name   string
	Tuning Tuning
}

const (
	opTry        = "try"        // TryAcquire Key
	opAcquire    = "acquire"    // Acquire Key
	opBegin      = "begin"      // begins a guarded transaction on the claim of Key
	opCount      = "count"      // counts in that transaction
	opEnd        = "end"        // ends it; replies what BeginFunc returned
	opAdd        = "add"        // counts in a guarded transaction
	opComplete   = "complete"   // counts in Complete
	opRelease    = "release"    // releases the claim of Key
	opLost       = "lost"       // waits until the claim of Key is lost
	opIncrements = "increments" // counts Key Times times under claims of its own
)

type request struct {
	ID    int
	Op    string
	Key   string
	Times int
}

type reply struct {
	ID    int
	Token int64
	Error *remoteError
}

func (r reply) err() error {
	if r.Error == nil {
		return nil
	}
	return r.Error
}

// remoteError is an error of a child. It matches the sentinels that it matched there.
type remoteError struct {
	Text  string
	Kinds []string
	Code  string // SQLSTATE
}

func (e *remoteError) Error() string { return "in another process: " + e.Text }

func (e *remoteError) Is(target error) bool {
	for _, kind := range e.Kinds {
		if target.Error() == kind {
			return true
		}
	}
	return false
}

var sentinels = []error{
	pgcoord.ErrHeld, pgcoord.ErrDone, pgcoord.ErrNotFound, pgcoord.ErrLost,
	pgcoord.ErrConflict, pgcoord.ErrOutcomeUnknown, pgcoord.ErrInvalidKey, pgcoord.ErrClosed,
}

func toRemote(err error) *remoteError {
	if err == nil {
		return nil
	}
	remote := &remoteError{Text: err.Error()}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			remote.Kinds = append(remote.Kinds, s.Error())
		}
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		remote.Code = pgErr.Code
	}
	return remote
}
