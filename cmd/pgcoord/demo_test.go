//go:build linux || darwin

package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

func TestDemoTellsItsStoryAsJSON(t *testing.T) {
	t.Parallel()
	o := runPgcoord(t, "demo", "--json")
	if o.status != 0 {
		t.Fatalf("status %d: %s", o.status, o.stderr)
	}
	var got struct{ Scenarios []scenario }
	decoder := json.NewDecoder(strings.NewReader(o.stdout))
	if err := decoder.Decode(&got); err != nil || decoder.More() {
		t.Fatalf("stdout is not one JSON value: %v\n%s", err, o.stdout)
	}
	want := []struct {
		strategy, name   string
		effects, refused int
		check            func(*testing.T, scenario)
	}{
		{"naive-ttl", "naive-ttl", 2, 0, checkTimeline},
		{"naive-cad", "naive-cad", 2, 0, checkTimeline},
		{"uniquelock", "uniquelock", 1, 1, checkTimeline},
		{"uniquelock", "uniquelock-in-transaction", 1, 1, checkTimeline},
		{"naive-cas", "naive-cas", 2, 0, checkOverlap},
		{"statemachine", "statemachine", 1, 1, checkOverlap},
		{"statemachine", "statemachine-crash", 1, 1, checkRelay},
	}
	if len(got.Scenarios) != len(want) {
		t.Fatalf("got %d scenarios, want %d", len(got.Scenarios), len(want))
	}
	for i, s := range got.Scenarios {
		w := want[i]
		if s.Strategy != w.strategy || s.Name != w.name || s.Effects != w.effects || s.Refused != w.refused ||
			s.ChargedCents != s.Effects*4990 {
			t.Errorf("got %+v, want %+v", s, w)
		}
		w.check(t, s)
	}
}

func TestDemoTellsItsStoryToPeople(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDSN(t)
	o := runPgcoord(t, "demo", "--database-url", dsn)
	if o.status != 0 || o.stderr != "" {
		t.Fatalf("status %d: %s", o.status, o.stderr)
	}
	for line := range strings.Lines(o.stdout) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.ContainsRune(o.stdout, '\x1b') {
		t.Error("ANSI codes in a pipe")
	}
	text := strings.Join(strings.Fields(o.stdout), " ")
	for _, part := range []string{"Database: PostgreSQL ", "STOPPED", "REFUSED: token ", "effect 2", "KILLED", "has installed it"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, o.stdout)
		}
	}
	if got := schemas(t, dsn); !slices.Equal(got, []string{"pgcoord"}) {
		t.Errorf("schemas afterwards: %v", got)
	}
	var attempts int
	if err := pgtest.Pool(t, dsn).QueryRow(context.Background(), "SELECT count(*) FROM pgcoord.attempts").Scan(&attempts); err != nil || attempts != 0 {
		t.Errorf("%d attempts left behind, %v", attempts, err)
	}
}

func TestDemoWantsAnUpToDateSchema(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	if _, err := pgtest.Pool(t, dsn).Exec(context.Background(), "DROP TABLE pgcoord.attempts CASCADE"); err != nil {
		t.Fatal(err)
	}
	o := runPgcoord(t, "demo", "--database-url", dsn)
	if o.status != 1 || !strings.Contains(o.stderr, "older than this program") {
		t.Errorf("got %+v", o)
	}
}

// schemas lists pgcoord's schemas in a database.
func schemas(t *testing.T, dsn string) []string {
	t.Helper()
	var names []string
	err := pgtest.Pool(t, dsn).QueryRow(context.Background(), `
		SELECT coalesce(array_agg(nspname::text ORDER BY nspname), '{}')
		  FROM pg_namespace WHERE nspname LIKE 'pgcoord%'`).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestDemoSparesTheSchemaOfAnother(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	pool := pgtest.Pool(t, dsn)
	if _, err := pool.Exec(context.Background(), "CREATE SCHEMA pgcoord_demo"); err != nil {
		t.Fatal(err)
	}
	o := runPgcoord(t, "demo", "--database-url", dsn)
	if o.status != 1 || !strings.Contains(o.stderr, "was not made by this demo") {
		t.Errorf("got %+v", o)
	}
	if got := schemas(t, dsn); !slices.Contains(got, "pgcoord_demo") {
		t.Errorf("schemas afterwards: %v", got)
	}
}

func TestDemoTakesTurns(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	conn, err := pgtest.Pool(t, dsn).Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	lock := "SELECT pg_advisory_lock(hashtextextended('pgcoord demo', 0))"
	if _, err := conn.Exec(context.Background(), lock); err != nil {
		t.Fatal(err)
	}
	o := runPgcoord(t, "demo", "--database-url", dsn)
	if o.status != 1 || !strings.Contains(o.stderr, "another demo is running") {
		t.Errorf("got %+v", o)
	}
}
