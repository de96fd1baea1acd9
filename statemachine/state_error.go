package statemachine

import (
	"fmt"
	"strings"

	"github.com/pgcoord/pgcoord"
)

// StateError tells where a row stands that was not moved. It matches
// pgcoord.ErrLost when the row is under another token than the one that was
// asked for, and pgcoord.ErrConflict otherwise.
type StateError struct {
	Key   string
	Want  []State // where the row had to be
	To    State   // where it had to go; Now == To: it is there already
	Now   State   // where it is; empty when Null is set
	Null  bool    // the state column is NULL
	Token int64   // what stands in the token column; 0 when there is none
	// WantToken is TransitionOptions.Token.
	WantToken int64
}

// Error names the key, the state and token of the row, and those it had to have.
func (e *StateError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pgcoord: key %q is ", e.Key)
	switch {
	case e.Null:
		b.WriteString("in no state (NULL)")
	case e.Now == e.To:
		fmt.Fprintf(&b, "in state %q already", e.Now)
	default:
		fmt.Fprintf(&b, "in state %q", e.Now)
	}
	if e.lost() {
		fmt.Fprintf(&b, " under token %d, not %d", e.Token, e.WantToken)
	}
	if e.in() {
		if !e.lost() {
			b.WriteString(" and did not move: it came back there meanwhile, or a trigger or policy keeps it")
		}
		return b.String()
	}
	fmt.Fprintf(&b, ", not in %s", list(e.Want))
	return b.String()
}

// Is reports whether target is pgcoord.ErrLost or pgcoord.ErrConflict, whichever
// this is.
func (e *StateError) Is(target error) bool {
	if e.lost() {
		return target == pgcoord.ErrLost
	}
	return target == pgcoord.ErrConflict
}

func (e *StateError) lost() bool { return e.WantToken != 0 && e.Token != e.WantToken }

// in reports whether the row is in a wanted state.
func (e *StateError) in() bool {
	for _, s := range e.Want {
		if !e.Null && s == e.Now {
			return true
		}
	}
	return false
}

// list writes states for an error: quoted, with "or" between them.
func list(states []State) string {
	quotedStates := make([]string, len(states))
	for i, s := range states {
		quotedStates[i] = fmt.Sprintf("%q", string(s))
	}
	return strings.Join(quotedStates, " or ")
}
