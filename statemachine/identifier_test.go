package statemachine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

var tableNames = []string{
	"orders", "shop.orders", `"orders"`, `shop."Order Items"`, `"a.b"."c""d"`, `"public.locks"`, "public.locks", `"a""b"`, `""""`,
	`"été".t`, "_x9", `"9x"`, `"select"`, "select", `a"; drop table x; --`, `"a"; drop table x; --`, `"a"x`, `"a".`, `.a`, `a..b`, "", `"`, `""`, `"a`,
	"a.b.c", "a b", "A", "a$", "é", "loc\x00ks", "\"\xff\"", "a.", " a", "a\n",
}

// What is taken means to PostgreSQL what it means here.
func TestTableNamesAreReadAsPostgreSQLDoes(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.EmptyDSN(t))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	taken := 0
	for _, name := range tableNames {
		parts, err := parseTable(name)
		if err != nil {
			continue
		}
		taken++
		var theirs []string
		if err := pool.QueryRow(ctx, "SELECT pg_catalog.parse_ident($1)", name).Scan(&theirs); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(theirs, parts) {
			t.Errorf("%s is read as %q, by PostgreSQL as %q", name, parts, theirs)
		}
		if err := pool.QueryRow(ctx, "SELECT pg_catalog.parse_ident($1)", parts.Sanitize()).Scan(&theirs); err != nil || !slices.Equal(theirs, parts) {
			t.Errorf("%s is written as %s, which PostgreSQL reads as %q (%v)", name, parts.Sanitize(), theirs, err)
		}
	}
	if taken != 14 {
		t.Errorf("%d names were taken, want 14", taken)
	}
}

func FuzzParseTable(f *testing.F) {
	for _, name := range tableNames {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		parts, err := parseTable(name)
		if err != nil {
			return
		}
		if len(parts) < 1 || len(parts) > 2 {
			t.Fatalf("%q has %d parts", name, len(parts))
		}
		for _, part := range parts {
			if err := checkText(part, maxIdentifier); err != nil {
				t.Fatalf("%q: %v", name, err)
			}
		}
		for _, form := range []string{parts.Sanitize(), written(parts...)} {
			if again, err := parseTable(form); err != nil || !slices.Equal(again, parts) {
				t.Fatalf("%q is read as %q, written as %s, and read as %q (%v)", name, parts, form, again, err)
			}
		}
	})
}

// Every name can be written.
func FuzzTableNames(f *testing.F) {
	f.Add("orders", "x")
	f.Add(`a"; drop table x; --`, ".")
	f.Add("a.b", `"`)
	f.Fuzz(func(t *testing.T, schema, name string) {
		for _, want := range []pgx.Identifier{{schema, name}, {name}} {
			good := true
			for _, part := range want {
				good = good && checkText(part, maxIdentifier) == nil
			}
			got, err := parseTable(want.Sanitize())
			if good && (err != nil || !slices.Equal(got, want)) {
				t.Fatalf("%s is read as %q (%v)", want.Sanitize(), got, err)
			}
		}
	})
}
