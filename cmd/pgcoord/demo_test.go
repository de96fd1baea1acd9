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

type scenario struct {
	Strategy         string
	Name             string
	Effects, Refused int
	ChargedCents     int `json:"charged_cents"`
	Timeline         []struct {
		AtMS   float64 `json:"at_ms"`
		Worker string
		Event  string
		Token  int64
	}
}

// at returns the place of an event in the timeline, -1 when it is not there.
func (s scenario) at(worker, event string) int {
	for i, m := range s.Timeline {
		if m.Event == event && (worker == "" || m.Worker == worker) {
			return i
		}
	}
	return -1
}

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
		strategy         string
		effects, refused int
	}{{"naive-ttl", 2, 0}, {"naive-cad", 2, 0}, {"uniquelock", 1, 1}, {"uniquelock", 1, 1}}
	if len(got.Scenarios) != len(want) {
		t.Fatalf("got %d scenarios, want %d", len(got.Scenarios), len(want))
	}
	for i, s := range got.Scenarios {
		w := want[i]
		if s.Strategy != w.strategy || s.Effects != w.effects || s.Refused != w.refused ||
			s.ChargedCents != s.Effects*4990 {
			t.Errorf("got %+v, want %+v", s, w)
		}
		checkTimeline(t, s)
	}
}

// checkTimeline holds the story to what makes it one: the stopped worker was away
// while its lock ran out and another did the work.
func checkTimeline(t *testing.T, s scenario) {
	t.Helper()
	last := "charged"
	if s.Refused > 0 {
		last = "refused"
	}
	story := []int{
		s.at("A", "took"), s.at("A", "checked"), s.at("A", "stopped"), s.at("", "expired"), s.at("", "charged"),
		s.at("A", "continued"), s.at("A", last),
	}
	if slices.Contains(story, -1) || !slices.IsSorted(story) {
		t.Errorf("%s: order of events %v in %+v", s.Name, story, s.Timeline)
		return
	}
	if away := s.Timeline[story[5]].AtMS - s.Timeline[story[2]].AtMS; away < 900 {
		t.Errorf("%s: A was away for %v ms only", s.Name, away)
	}
	if s.Timeline[story[4]].Worker == "A" {
		t.Errorf("%s: A charged first", s.Name)
	}
	var tokens []int64
	for _, m := range s.Timeline {
		if m.Event == "took" {
			tokens = append(tokens, m.Token)
		}
	}
	naive := strings.HasPrefix(s.Strategy, "naive")
	growing := slices.IsSortedFunc(tokens, func(a, b int64) int {
		if a < b {
			return -1
		}
		return 1
	})
	if len(tokens) != 3 || !naive && (!growing || tokens[0] < 1) || naive && tokens[2] != 0 {
		t.Errorf("%s: tokens %v", s.Name, tokens)
	}
	if s.Refused > 0 && s.Timeline[story[6]].Token != tokens[0] {
		t.Errorf("%s: refused %d, A's token was %d", s.Name, s.Timeline[story[6]].Token, tokens[0])
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
	for _, part := range []string{"Database: PostgreSQL ", "STOPPED", "REFUSED: token ", "effect 2", "has installed it"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, o.stdout)
		}
	}
	if got := schemas(t, dsn); !slices.Equal(got, []string{"pgcoord"}) {
		t.Errorf("schemas afterwards: %v", got)
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
