package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module makes a tree with a module that has one function and its tests.
func module(t *testing.T) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/sum\n\ngo 1.26\n",
		"sum.go": "package sum\n\nfunc sum(a, b int) int {\n\treturn a + b // here\n}\n",
		"sum_test.go": `package sum

import "testing"

func TestSum(t *testing.T) {
	t.Run("of two", func(t *testing.T) {
		if got := sum(1, 2); got != 3 {
			t.Errorf("SUM is %d (SQLSTATE 22012)", got)
		}
	})
}

func TestOther(t *testing.T) {}

func TestSetUp(t *testing.T) {
	if sum(1, 1) != 2 {
		t.Fatal("no subtest is reached")
	}
	t.Run("of none", func(*testing.T) {})
}
`,
	} {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// What the runner says of mutants that are to be found, and of those that are not
// what they seem.
func TestVerdicts(t *testing.T) {
	tree := module(t)
	for _, tt := range []struct {
		name     string
		old, new string
		run      string
		fault    string // in the error; "": the test is red
	}{
		{"found", "a + b", "a - b", "TestSum", ""},
		{"changes nothing", "a + b", "a + b", "TestSum", "survived"},
		{"changes nothing that is tested", "// here", "// there", "TestSum", "survived"},
		{"tests look elsewhere", "a + b", "a - b", "TestOther", "survived"},
		{"not there", "a * b", "a - b", "TestSum", "0 times"},
		{"more than once", "a", "c", "TestSum", "4 times"},
		{"does not compile", "a + b", "a + c", "TestSum", "does not compile"},
		{"runs no test", "a + b", "a - b", "TestNothing", "matches no test"},
		{"runs no subtest", "a + b", "a - b", "TestOther/of_two", "matches no subtest"},
		{"breaks the set-up", "a + b", "a - b", "TestSetUp/of_none", "red before"},
		{"breaks the SQL", "a + b", `func() int { panic("syntax error (SQLSTATE 42601)") }()`, "TestSum", "SQL does not run"},
		{"ends the process", "a + b", `func() int { go panic("gone"); select {} }()`, "TestSum", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := mutant{name: "m", clause: "S1", edit: edit{"sum.go", tt.old, tt.new}, pkg: ".", run: tt.run}
			v := try(t.Context(), tree, m)
			switch {
			case tt.fault != "":
				if v.err == nil || !strings.Contains(v.err.Error(), tt.fault) {
					t.Errorf("got %v, want an error with %q", v, tt.fault)
				}
				if failures([]mutant{m}, []verdict{v}) == nil || !strings.Contains(table([]mutant{m}, []verdict{v}), tt.fault) {
					t.Errorf("%q is not in the table, or not a failure of the run", tt.fault)
				}
			case v.err != nil || !strings.HasPrefix(v.test, "TestSum/of_two") || v.line != 4:
				t.Errorf("got %v in line %d, want red: TestSum/of_two in line 4", v, v.line)
			}
		})
	}
	if got := try(t.Context(), tree, mutant{edit: edit{"sum.go", "a + b", "a + b"}, pkg: ".", run: "TestSum"}); !errors.Is(got.err, errSurvived) {
		t.Errorf("the tree was not left as it was: %v", got)
	}
}

// Tests that are red without a mutant prove nothing about one.
func TestSoundBefore(t *testing.T) {
	tree := module(t)
	chosen := []mutant{{pkg: ".", run: "TestSum/of_two"}, {pkg: ".", run: "TestOther"}}
	if err := soundBefore(t.Context(), tree, chosen); err != nil {
		t.Error(err)
	}
	if _, err := (edit{"sum.go", "a + b", "a - b"}).apply(tree); err != nil {
		t.Fatal(err)
	}
	if err := soundBefore(t.Context(), tree, chosen); err == nil || !strings.Contains(err.Error(), "TestSum/of_two is red") {
		t.Errorf("red tests: %v", err)
	}
}
