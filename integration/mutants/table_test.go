package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A part of the mutants changes its own rows; those of mutants that failed, or that
// are no more, go.
func TestWriteDocument(t *testing.T) {
	all := mutants()
	first, second, third := all[0], all[1], all[2]
	name := filepath.Join(t.TempDir(), "mutants.md")
	old := header + row(mutant{name: "no-more"}, verdict{test: "TestOld"}) + row(third, verdict{test: "TestOld"}) + row(second, verdict{test: "TestOld"})
	if err := os.WriteFile(name, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	err := writeDocument(name, []mutant{first, second}, []verdict{{test: "TestNew"}, {err: errors.New("survived")}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := row(first, verdict{test: "TestNew"}) + row(third, verdict{test: "TestOld"})
	if got, ok := strings.CutPrefix(string(text), preamble+header); !ok || got != want {
		t.Errorf("the document is\n%s\nwant the rows\n%s", text, want)
	}
}
