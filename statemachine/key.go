package statemachine

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/keys"
)

// Key returns the key of a row from the values of its key columns, as claims and
// verbs take it: the text of a single value, a JSON array of the texts of several.
// Integers, strings and fmt.Stringers (a UUID, for instance) are values.
func Key(values ...any) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprint(v)
	}
	return joinKey(parts)
}

// joinKey writes the canonical form of a key. It is what json_build_array would
// write without spaces, so that SQL can write it too; see keySQL.
func joinKey(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	var b strings.Builder
	b.WriteByte('[')
	for i, part := range parts {
		if i > 0 {
			b.WriteByte(',')
		}
		writeJSON(&b, part)
	}
	b.WriteByte(']')
	return b.String()
}

// writeJSON writes s as PostgreSQL's to_json does.
func writeJSON(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) { // by bytes, so that what is no UTF-8 stays so, and is refused
		switch c := s[i]; c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\b':
			b.WriteString(`\b`)
		case '\f':
			b.WriteString(`\f`)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		default:
			if c < ' ' {
				fmt.Fprintf(b, `\u%04x`, c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	b.WriteByte('"')
}

// keyType is the type of a key column.
type keyType string

const (
	textKey     keyType = "text"
	smallintKey keyType = "smallint"
	integerKey  keyType = "integer"
	bigintKey   keyType = "bigint"
	uuidKey     keyType = "uuid"
)

var canonicalUUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// check returns nil when s is the canonical text of a value of the type: the only
// one by which two callers mean the same row.
func (t keyType) check(s string) error {
	bits := map[keyType]int{smallintKey: 16, integerKey: 32, bigintKey: 64}[t]
	switch {
	case bits > 0:
		n, err := strconv.ParseInt(s, 10, bits)
		if err != nil || strconv.FormatInt(n, 10) != s {
			return fmt.Errorf("%w: %q is not the canonical text of a value of type %s", pgcoord.ErrInvalidKey, s, t)
		}
	case t == textKey && strings.IndexByte(s, 0) >= 0: // from a JSON escape
		return fmt.Errorf("%w: %q contains a NUL byte", pgcoord.ErrInvalidKey, s)
	case t == uuidKey && !canonicalUUID.MatchString(s):
		return fmt.Errorf("%w: %q is not the canonical text of a value of type uuid", pgcoord.ErrInvalidKey, s)
	}
	return nil
}

// splitKey checks key and returns the texts of its columns' values.
func (s *shape) splitKey(key string) ([]string, error) {
	if err := keys.Check(key); err != nil {
		return nil, err
	}
	parts := []string{key}
	if len(s.keyTypes) > 1 {
		if err := json.Unmarshal([]byte(key), &parts); err != nil || joinKey(parts) != key {
			return nil, fmt.Errorf("%w: %q is not a JSON array of strings in its shortest form, as Key writes it", pgcoord.ErrInvalidKey, key)
		}
	}
	if len(parts) != len(s.keyTypes) {
		return nil, fmt.Errorf("%w: %q has %d values, the key has %d columns", pgcoord.ErrInvalidKey, key, len(parts), len(s.keyTypes))
	}
	for i, part := range parts {
		if err := s.keyTypes[i].check(part); err != nil {
			return nil, err
		}
	}
	return parts, nil
}
