package doccheck

import (
	"go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGoBlocks(t *testing.T) {
	eachBlock(t, func(t *testing.T, d document, b block) {
		if b.from == "" {
			t.Errorf("%s:%d: Go without a comment <!-- from file --> above it", d.name, b.line)
			return
		}
		file := filepath.Join(root, filepath.FromSlash(b.from))
		if compiled, err := build.Default.MatchFile(filepath.Dir(file), filepath.Base(file)); err != nil || !compiled {
			t.Errorf("%s:%d: %s is not compiled here: %v", d.name, b.line, b.from, err)
			return
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%s:%d: %v", d.name, b.line, err)
			return
		}
		if missing := firstMissing(b.text, string(source)); missing != "" {
			t.Errorf("%s:%d: not what stands in %s, from this line on: %s", d.name, b.line, b.from, missing)
		}
	}, "go")
}

// firstMissing returns "" when the lines of part stand in whole one after the
// other, all indented by the same amount more. Else it returns the line where the
// longest match ends.
func firstMissing(part, whole string) string {
	want, have := strings.Split(part, "\n"), strings.Split(whole, "\n")
	best := 0
	for at := range have {
		if len(have)-at < len(want) {
			break
		}
		indent := have[at][:len(have[at])-len(strings.TrimLeft(have[at], "\t"))]
		n := 0
		for n < len(want) && (have[at+n] == indent+want[n] || have[at+n] == "" && want[n] == "") {
			n++
		}
		if n == len(want) {
			return ""
		}
		best = max(best, n)
	}
	return want[min(best, len(want)-1)]
}

// The check can fail.
func TestFirstMissing(t *testing.T) {
	whole := "package a\n\nfunc f() {\n\tx()\n\n\ty()\n}\n"
	for part, want := range map[string]string{
		"x()\n\ny()":              "",
		"func f() {\n\tx()":       "",
		"x()\n\nz()":              "z()",
		"x()\ny()":                "y()",
		"func f() {\nx()":         "x()",
		"package b":               "package b",
		"y()\n}\n\nfunc g() {}":   "y()",
		"package a\n\nfunc g()":   "func g()",
		"package a\n\nfunc f() {": "",
	} {
		if got := firstMissing(part, whole); got != want {
			t.Errorf("%q: %q, want %q", part, got, want)
		}
	}
}
