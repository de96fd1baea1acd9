// Package keys checks the names that callers give: keys, ids, holders. A name is
// checked before anything is sent, so that a bad one changes nothing.
package keys

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pgcoord/pgcoord"
)

const (
	maxKey = 512 // bytes
	maxID  = 128 // bytes
)

// Check returns nil for a key that can name something: 1 to 512 bytes of valid
// UTF-8 without NUL. Else the error matches pgcoord.ErrInvalidKey.
func Check(key string) error {
	if fault := fault(key, maxKey); fault != "" {
		return fmt.Errorf("%w: %s", pgcoord.ErrInvalidKey, fault)
	}
	return nil
}

// CheckID returns nil for an id of 1 to 128 bytes of valid UTF-8 without NUL.
// What says whose id it is, for the error.
func CheckID(what, id string) error {
	if fault := fault(id, maxID); fault != "" {
		return fmt.Errorf("pgcoord: invalid %s: %s", what, fault)
	}
	return nil
}

// CheckText returns nil for text of at most limit bytes, which may be empty.
func CheckText(what, text string, limit int) error {
	if text == "" {
		return nil
	}
	if fault := fault(text, limit); fault != "" {
		return fmt.Errorf("pgcoord: invalid %s: %s", what, fault)
	}
	return nil
}

// fault says what is wrong with name; it never repeats a name that may be huge.
func fault(name string, limit int) string {
	switch {
	case name == "":
		return "it is empty"
	case len(name) > limit:
		return fmt.Sprintf("it has %d bytes, at most %d are allowed", len(name), limit)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Sprintf("%q contains a NUL byte", name)
	case !utf8.ValidString(name):
		return fmt.Sprintf("%q is not valid UTF-8", name)
	}
	return ""
}
