package statemachine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// hostile texts are parts of keys that could be written in more than one way.
var hostile = []string{
	"", " ", "a", "7", "007", `"`, `\`, `\"`, `a"b`, `a\b`, "'", "/", "</script>&", "[]", `["a","b"]`, ",", "null",
	"\b\f\n\r\t", "\x01\x1f", "\x7f", "\u0080", "\u2028\u2029", "\ufeff", "\ufffd", "caf\u00e9", "cafe\u0301", "K", "k ", "😀", "\\u0041",
}

// A key that SQL writes is the one that Key writes, whatever is in it.
func TestKeysAreTheSameInSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.EmptyDSN(t))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	m, err := Define(Definition{
		Table: "t", Key: []string{"a", `b "c"`, "n"}, Initial: []State{"x"}, Transitions: []Transition{{"x", "y"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &shape{keyTypes: []keyType{textKey, textKey, bigintKey}}
	for _, a := range hostile {
		for _, b := range hostile {
			var inSQL string
			var same bool
			sql := `SELECT ` + m.keySQL("t") + `, ` + m.keyMatch(s, "t", 4) + ` FROM (SELECT $1::text AS a, $2::text AS "b ""c""", $3::bigint AS n) t`
			key := Key(a, b, int64(-9))
			parts, err := s.splitKey(key)
			if err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			if err := pool.QueryRow(ctx, sql, a, b, -9, parts[0], parts[1], parts[2]).Scan(&inSQL, &same); err != nil {
				t.Fatal(err)
			}
			if inSQL != key || !same || parts[0] != a || parts[1] != b {
				t.Fatalf("%q and %q are the key %s, in SQL %s, and read as %q", a, b, key, inSQL, parts)
			}
		}
	}
}

func TestKeyOfOneColumnIsItsText(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{"42": Key(42), "a\"b": Key(`a"b`), "-9": Key(int16(-9)), `["a","1"]`: Key("a", uint8(1)), "7s": Key(7 * time.Second)} {
		if got != want {
			t.Errorf("the key is %s, want %s", got, want)
		}
	}
}

// Two callers must not mean one row by two keys.
func TestOnlyOneTextMeansAKey(t *testing.T) {
	t.Parallel()
	one := func(types ...keyType) *shape { return &shape{keyTypes: types} }
	uuid := "01890a5d-ac96-774b-bcce-b302099a8057"
	for _, c := range []struct {
		s         *shape
		good, bad []string
	}{
		{one(textKey), []string{"k", " ", `["a"]`, strings.Repeat("a", 512)}, []string{"", "a\x00b", "a\xff", strings.Repeat("a", 513)}},
		{one(smallintKey), []string{"0", "-32768", "32767"}, []string{"32768", "007", "+7", "-0", "1e3", " 7", "", "7 ", "0x7", "1_0"}},
		{one(integerKey), []string{"2147483647"}, []string{"2147483648", "2147483647.0"}},
		{one(bigintKey), []string{"-9223372036854775808"}, []string{"9223372036854775808", "٣"}},
		{one(uuidKey), []string{uuid}, []string{strings.ToUpper(uuid), "{" + uuid + "}", strings.ReplaceAll(uuid, "-", ""), uuid + "0", ""}},
		{
			one(textKey, bigintKey),
			[]string{`["a","7"]`, `["","7"]`, `["\u0001\"\\\n","7"]`, "[\"\u2028\",\"7\"]"},
			[]string{
				`["a",7]`, `["a", "7"]`, `[ "a","7"]`, `["a","7"] `, `["a","07"]`, `["a"]`, `["a","7","x"]`, `["\u0061","7"]`, `["a\/","7"]`,
				`["a",null]`, `{"a":"7"}`, "a", `["\ud800","7"]`, `["\u0000","7"]`, `["\u001F","7"]`, "[\"\x01\",\"7\"]", "[\"\xff\",\"7\"]", "null", "",
			},
		},
	} {
		for _, key := range c.good {
			if _, err := c.s.splitKey(key); err != nil {
				t.Errorf("%v: %q: %v", c.s.keyTypes, key, err)
			}
		}
		for _, key := range c.bad {
			if parts, err := c.s.splitKey(key); !errors.Is(err, pgcoord.ErrInvalidKey) {
				t.Errorf("%v: %q is taken for %q (%v), want ErrInvalidKey", c.s.keyTypes, key, parts, err)
			}
		}
	}
}

// What is no UTF-8 must not become another key.
func TestKeyKeepsBadBytes(t *testing.T) {
	t.Parallel()
	s := &shape{keyTypes: []keyType{textKey, textKey}}
	if _, err := s.splitKey(Key("a\xff", "b")); !errors.Is(err, pgcoord.ErrInvalidKey) {
		t.Errorf("got %v, want ErrInvalidKey", err)
	}
}

func FuzzKey(f *testing.F) {
	for _, a := range hostile {
		f.Add(a, "b")
	}
	s := &shape{keyTypes: []keyType{textKey, textKey}}
	f.Fuzz(func(t *testing.T, a, b string) {
		parts, err := s.splitKey(Key(a, b))
		if err == nil && (parts[0] != a || parts[1] != b) {
			t.Fatalf("%q, %q are read as %q", a, b, parts)
		}
		if err != nil && !errors.Is(err, pgcoord.ErrInvalidKey) {
			t.Fatal(err)
		}
		// The text itself as a key means at most what Key writes for its parts.
		if parts, err := s.splitKey(a); err == nil && Key(parts[0], parts[1]) != a {
			t.Fatalf("%q is read as %q", a, fmt.Sprint(parts))
		}
	})
}
