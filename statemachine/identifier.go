package statemachine

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// maxIdentifier is the length in bytes at which PostgreSQL cuts names without an
// error, so that two longer ones can be one.
const maxIdentifier = 63

var plainIdentifier = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// parseTable reads a table's name, with or without its schema, as SQL writes it.
// It takes fewer names than SQL: those that SQL would fold to lower case must be
// quoted or written so.
func parseTable(text string) (pgx.Identifier, error) {
	var parts pgx.Identifier
	for rest := text; ; {
		part, after, err := cutPart(rest)
		if err == nil {
			err = checkText(part, maxIdentifier)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: part %d: %w", shown(text), len(parts)+1, err)
		}
		parts = append(parts, part)
		if after == "" {
			break
		}
		if after[0] != '.' {
			return nil, fmt.Errorf("%s: a dot must follow the quoted part %s", shown(text), shown(part))
		}
		rest = after[1:]
	}
	if len(parts) > 2 {
		return nil, fmt.Errorf("%s has %d parts; it must be table or schema.table", shown(text), len(parts))
	}
	return parts, nil
}

// cutPart returns the first part of text and what follows it.
func cutPart(text string) (part, after string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexByte(text, '.')
		if end < 0 {
			end = len(text)
		}
		part, after = text[:end], text[end:]
		if part != "" && !plainIdentifier.MatchString(part) {
			return "", "", fmt.Errorf("%s is not a plain lower-case name; put others in double quotes", shown(part))
		}
		return part, after, nil
	}
	var b strings.Builder
	for rest := text[1:]; ; {
		inside, more, closed := strings.Cut(rest, `"`)
		if !closed {
			return "", "", errors.New("a double quote is not closed")
		}
		b.WriteString(inside)
		if !strings.HasPrefix(more, `"`) {
			return b.String(), more, nil
		}
		b.WriteByte('"')
		rest = more[1:]
	}
}

// written returns parts as parseTable reads them, with no more quotes than needed.
func written(parts ...string) string {
	out := make([]string, len(parts))
	for i, part := range parts {
		out[i] = part
		if !plainIdentifier.MatchString(part) {
			out[i] = quoted(part)
		}
	}
	return strings.Join(out, ".")
}

// checkText returns nil for 1 to limit bytes of valid UTF-8 without NUL.
func checkText(text string, limit int) error {
	switch {
	case text == "":
		return errors.New("it is empty")
	case len(text) > limit:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", shown(text), len(text), limit)
	case strings.IndexByte(text, 0) >= 0:
		return fmt.Errorf("%s contains a NUL byte", shown(text))
	case !utf8.ValidString(text):
		return fmt.Errorf("%s is not valid UTF-8", shown(text))
	}
	return nil
}

// shown returns text for an error: in quotes, and of a huge one the beginning.
func shown(text string) string {
	const most = 200
	if len(text) > most {
		return fmt.Sprintf("%q…", text[:most])
	}
	return fmt.Sprintf("%q", text)
}
