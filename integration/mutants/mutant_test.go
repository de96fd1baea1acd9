package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every mutant changes the code as it stands, and every clause has one.
func TestMutantsApply(t *testing.T) {
	root, err := projectRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(t.TempDir(), "tree")
	if err := copyProject(t.Context(), root, tree); err != nil {
		t.Fatal(err)
	}
	names, clauses := map[string]bool{}, map[string]bool{}
	for _, m := range mutants() {
		if names[m.name] || !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`).MatchString(m.name) {
			t.Errorf("%q is not a good name, or there are two of it", m.name)
		}
		names[m.name] = true
		for _, clause := range strings.Fields(m.clause) {
			clauses[clause] = true
		}
		if err := appliesAndBack(tree, m); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	for i := range 15 {
		if clause := fmt.Sprintf("S%d", i+1); !clauses[clause] {
			t.Errorf("no mutant breaks %s", clause)
		}
	}
}

// appliesAndBack applies m and restores the files.
func appliesAndBack(tree string, m mutant) error {
	before := map[string][]byte{}
	for _, e := range append([]edit{m.edit}, m.also...) {
		if _, known := before[e.file]; known {
			continue
		}
		content, err := os.ReadFile(filepath.Join(tree, e.file))
		if err != nil {
			return err
		}
		before[e.file] = content
	}
	_, err := m.apply(tree)
	for name, content := range before {
		if err := os.WriteFile(filepath.Join(tree, name), content, 0o644); err != nil {
			return err
		}
	}
	return err
}

// docs/mutants.md has a row for each mutant, in the order of the table.
func TestDocumentIsComplete(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(document)))
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for line := range strings.Lines(strings.TrimPrefix(string(text), preamble+header)) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, begin), " |")
		have = append(have, name)
	}
	for _, m := range mutants() {
		want = append(want, m.name)
	}
	if !slices.Equal(have, want) {
		t.Errorf("%s does not have the mutants of the table:\n%v\nRun the new ones with -write", document, have)
	}
}
