package pgcoord

import (
	"errors"
	"fmt"
	"time"
)

// The errors that callers decide by. Every error of this module that stands
// for one of these cases matches it under errors.Is, and names the operation
// and the key.
var (
	// ErrHeld reports that another claim on the key is current.
	ErrHeld = errors.New("pgcoord: key is held")
	// ErrDone reports that the work was completed, or the operation applied, before.
	ErrDone = errors.New("pgcoord: already done")
	// ErrNotFound reports that there is no row of that key.
	ErrNotFound = errors.New("pgcoord: no such key")
	// ErrLost reports that the claim is no longer current: nothing was written.
	ErrLost = errors.New("pgcoord: claim lost")
	// ErrConflict reports that the key, or the caller's transaction, is in a
	// state that does not allow the operation: nothing was written.
	ErrConflict = errors.New("pgcoord: conflict")
	// ErrOutcomeUnknown reports that the reply to a commit did not arrive: the
	// writes may be stored or not. See Resolver.
	ErrOutcomeUnknown = errors.New("pgcoord: outcome unknown")
	// ErrInvalidKey reports a key that can name nothing.
	ErrInvalidKey = errors.New("pgcoord: invalid key")
	// ErrClosed reports a call on a coordinator that is closing or closed.
	ErrClosed = errors.New("pgcoord: coordinator is closed")
)

// HeldError tells who holds a key. It matches [ErrHeld].
type HeldError struct {
	Key    string
	Holder string    // as the holder named itself; empty when it is not known
	Token  int64     // of the current claim; 0 when it is not known
	Since  time.Time // by the database's clock; zero when it is not known
	Until  time.Time // end of its lease by the database's clock; zero when there is none
}

// Error names the key, the holder, its token and the end of its lease.
func (e *HeldError) Error() string {
	msg := fmt.Sprintf("pgcoord: key %q is held", e.Key)
	if e.Holder != "" {
		msg += fmt.Sprintf(" by %q", e.Holder)
	}
	if e.Token != 0 {
		msg += fmt.Sprintf(" under token %d", e.Token)
	}
	if !e.Until.IsZero() {
		msg += " until " + e.Until.UTC().Format(time.RFC3339Nano)
	}
	return msg
}

// Is reports whether target is ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }
