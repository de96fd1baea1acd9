//go:build linux || darwin

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
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
		Text   string
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

// happened holds the timeline to events in an order, and A to have been away for
// longer than its lock lasts. It returns their places, none after a failure.
func happened(t *testing.T, s scenario, events ...[2]string) []int {
	t.Helper()
	var places []int
	for _, e := range events {
		places = append(places, s.at(e[0], e[1]))
	}
	if slices.Contains(places, -1) || !slices.IsSorted(places) {
		t.Errorf("%s: %v are at %v in %+v", s.Name, events, places, s.Timeline)
		return nil
	}
	if away := s.Timeline[s.at("A", "continued")].AtMS - s.Timeline[s.at("A", "stopped")].AtMS; away < 900 {
		t.Errorf("%s: A was away for %v ms only", s.Name, away)
	}
	return places
}

// took returns the tokens in the order in which they were taken.
func (s scenario) took() (tokens []int64) {
	for _, m := range s.Timeline {
		if m.Event == "took" {
			tokens = append(tokens, m.Token)
		}
	}
	return tokens
}

// wantTokens holds pgcoord's tokens to grow, and naive locks to have none.
func wantTokens(t *testing.T, s scenario, n int) {
	t.Helper()
	tokens := s.took()
	naive := strings.HasPrefix(s.Strategy, "naive")
	for i, token := range tokens {
		if naive != (token == 0) || !naive && i > 0 && token <= tokens[i-1] {
			t.Errorf("%s: tokens %v", s.Name, tokens)
		}
	}
	if len(tokens) != n {
		t.Errorf("%s: taken %d times, want %d", s.Name, len(tokens), n)
	}
	if s.Refused > 0 && s.Timeline[s.at("A", "refused")].Token != tokens[0] {
		t.Errorf("%s: refused %d, A's token was %d", s.Name, s.Timeline[s.at("A", "refused")].Token, tokens[0])
	}
}

// last is what becomes of A's charge.
func (s scenario) last() string {
	if s.Refused > 0 {
		return "refused"
	}
	return "charged"
}

// checkTimeline holds the story to what makes it one: the stopped worker was away
// while its lock ran out and another did the work.
func checkTimeline(t *testing.T, s scenario) {
	t.Helper()
	places := happened(t, s, [][2]string{
		{"A", "took"},
		{"A", "checked"},
		{"A", "stopped"},
		{"", "expired"},
		{"", "charged"},
		{"A", "continued"},
		{"A", s.last()},
	}...)
	if places == nil {
		return
	}
	if s.Timeline[places[4]].Worker == "A" {
		t.Errorf("%s: A charged first", s.Name)
	}
	wantTokens(t, s, 3)
}

// checkOverlap: A goes on while another is at work on the row, which the third one
// finds done.
func checkOverlap(t *testing.T, s scenario) {
	t.Helper()
	if happened(t, s, [][2]string{
		{"A", "took"}, {"A", "stopped"}, {"", "expired"}, {"A", "continued"}, {"A", s.last()},
	}...) == nil {
		return
	}
	wantTokens(t, s, 2)
	expired, continued := s.at("", "expired"), s.at("A", "continued")
	var second, third string
	for _, m := range s.Timeline[expired:continued] {
		if m.Event == "took" {
			second = m.Worker
		}
	}
	if second == "" || second == "A" {
		t.Errorf("%s: nobody took the row over: %+v", s.Name, s.Timeline)
		return
	}
	third = string('B' + 'C' - second[0])
	if s.Refused > 0 && s.at(second, "charged") < s.at("A", "refused") {
		t.Errorf("%s: %s was not at work when A was refused: %+v", s.Name, second, s.Timeline)
	}
	if end := s.Timeline[len(s.Timeline)-1]; end.Worker != third || end.Event != "ended" || !strings.Contains(end.Text, "PAID") {
		t.Errorf("%s: the last is %+v, want that %s finds the row PAID", s.Name, end, third)
	}
}

// checkRelay: B takes the row over from A and dies, C finishes it.
func checkRelay(t *testing.T, s scenario) {
	t.Helper()
	if happened(t, s, [][2]string{
		{"A", "took"},
		{"A", "stopped"},
		{"B", "took"},
		{"B", "checked"},
		{"B", "killed"},
		{"C", "took"},
		{"C", "charged"},
		{"A", "continued"},
		{"A", "refused"},
	}...) == nil {
		return
	}
	wantTokens(t, s, 3)
	if s.at("B", "charged") >= 0 {
		t.Errorf("%s: B charged: %+v", s.Name, s.Timeline)
	}
	for i, worker := range []string{"A", "B", "C"} {
		if text := s.Timeline[s.at(worker, "took")].Text; text != fmt.Sprintf("attempt %d", i+1) {
			t.Errorf("%s: %s took it as %q", s.Name, worker, text)
		}
	}
}
