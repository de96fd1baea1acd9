package demo

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// drawAll writes everything that the screen can show, with long names.
func drawAll(s *screen) {
	s.opening("PostgreSQL 18.4 (local: /Applications/Postgres.app/Contents/Versions/18/bin), and one more sentence on it")
	var results []result
	for i, sc := range scenarios {
		a := sc.about()
		s.scenario(i+1, a)
		for _, m := range []moment{
			{Worker: "A", Event: kindTook, Token: 3<<40 + 987654, Text: "claims it"},
			{Worker: "A", Event: kindStopped, Text: "STOPPED (SIGSTOP)"},
			{Event: kindExpired, Text: a.expired},
			{Worker: "C", Event: kindTook, Token: 3<<40 + 987655, Text: "claims it"},
			{Worker: "C", Event: kindCharged, Effects: 1, Text: "CHARGES"},
			{AtMS: 19999.9, Worker: "A", Event: kindCharged, Effects: 2, Text: "CHARGES"},
			{Worker: "A", Event: kindRefused, Token: 3<<40 + 987654, Text: "REFUSED"},
		} {
			s.moment(m)
		}
		r := result{about: a, Strategy: a.strategy, Paused: a.pause, Effects: 2, ChargedCents: 2 * price}
		s.ending(r)
		results = append(results, r)
	}
	s.table(results)
}

func TestScreenFitsAndIsPlainWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	drawAll(&screen{out: &out, colours: coloursFit(&out)})
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.ContainsRune(out.String(), '\x1b') {
		t.Error("ANSI codes")
	}
}

func TestColoursAreAllThatATerminalAdds(t *testing.T) {
	var plainly, coloured bytes.Buffer
	drawAll(&screen{out: &plainly})
	drawAll(&screen{out: &coloured, colours: true})
	text := coloured.String()
	if !strings.Contains(text, "\x1b["+red+"m") || !strings.Contains(text, "\x1b["+green+"m") {
		t.Error("no red or no green")
	}
	for _, code := range []string{bold, faint, red, green, yellow, "0"} {
		text = strings.ReplaceAll(text, "\x1b["+code+"m", "")
	}
	if text != plainly.String() {
		t.Error("the texts differ")
	}
}

func TestColoursNeedATerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer writer.Close()
	if coloursFit(file) || coloursFit(writer) {
		t.Error("a file or a pipe has got colours")
	}
}

// full is a writer that fails.
type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestScreenKeepsTheFirstFailedWrite(t *testing.T) {
	s := &screen{out: full{}}
	drawAll(s)
	if !errors.Is(s.err, errFull) {
		t.Errorf("got %v", s.err)
	}
}
