package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// screen writes the story for people, in 80 columns.
type screen struct {
	out     io.Writer
	colours bool
	err     error // the first failed write
}

const (
	columns = 80
	lane    = 23 // columns of one worker
)

// The colours of a line, as ANSI codes.
const (
	plain  = ""
	bold   = "1"
	faint  = "2"
	red    = "1;31"
	green  = "1;32"
	yellow = "1;33"
)

// coloursFit tells whether out is a terminal that wants colours.
func coloursFit(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (s *screen) line(colour, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.colours && colour != plain && text != "" {
		text = "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
	if _, err := fmt.Fprintln(s.out, text); err != nil && s.err == nil {
		s.err = err
	}
}

func (s *screen) opening(label string) {
	s.line(bold, "Will the customer be charged twice?")
	s.line(plain, "")
	s.line(plain, "Three processes get the same order of %s. A locks it, sees that it is unpaid,", money(price))
	s.line(plain, "and is stopped before it charges, for longer than its lock lasts: think of a GC")
	s.line(plain, "pause, or of a VM that is moved. Another process takes over and charges. Then A")
	s.line(plain, "goes on where it was and knows nothing of all that.")
	s.line(plain, "")
	for _, line := range wrap("Database: "+label, columns) {
		s.line(faint, "%s", line)
	}
}

func (s *screen) scenario(number int, a about) {
	s.line(plain, "")
	s.line(bold, "%d. %s: %s", number, a.strategy, a.title)
	s.line(faint, "  seconds  %-*s%-*s%s", lane, "A", lane, "B", "C")
}

// moment writes one line of the timeline: each worker has a lane of its own.
func (s *screen) moment(m moment) {
	colour, text := plain, m.Text
	switch m.Event {
	case kindStopped, kindContinued, kindKilled:
		colour = yellow
	case kindWaits, kindExpired, kindEnded:
		colour = faint
	case kindTook:
		text += shortToken(m.Token)
	case kindRefused:
		colour = green
		if m.Token != 0 {
			text += strings.Replace(shortToken(m.Token), ",", ":", 1) + " is old"
		}
	case kindCharged:
		text += fmt.Sprintf(", effect %d", m.Effects)
		if m.Effects > 1 {
			colour = red
		}
	}
	indent := 0
	if m.Worker != "" {
		indent = lane * int(m.Worker[0]-'A')
	} else {
		text = "-- " + text + " --"
	}
	s.line(colour, "%9.2f  %*s%s", m.AtMS/1000, indent, "", text)
}

// shortToken leaves out the upper bits, which tell the history of the server.
func shortToken(token int64) string {
	if token == 0 {
		return ""
	}
	return fmt.Sprintf(", token %d", token&(1<<40-1))
}

func (s *screen) ending(r result) {
	colour, times := green, "once"
	if r.Effects != 1 {
		colour, times = red, fmt.Sprintf("%d times", r.Effects)
	}
	s.line(colour, "  => charged %s: %s. %s", times, money(r.ChargedCents), r.about.moral)
}

// table closes the demo.
func (s *screen) table(results []result) {
	s.line(plain, "")
	s.line(bold, "%-14s%-28s%9s%9s%9s", "strategy", "A was stopped", "effects", "refused", "paid")
	for _, r := range results {
		colour := green
		if r.Effects != 1 {
			colour = red
		}
		s.line(colour, "%-14s%-28s%9d%9d%9s", r.Strategy, r.Paused, r.Effects, r.Refused, money(r.ChargedCents))
	}
	s.line(plain, "A naive worker checks, then writes. Under pgcoord the commit itself checks.")
}

func money(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// wrap keeps a long text within width, where its words allow it.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
