package doccheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pgcoord/pgcoord/sql/migrations"
)

// Commands that documents may tell to run, and what must be true of each.
var commands = []struct {
	pattern *regexp.Regexp
	check   func(t *testing.T, m []string)
}{
	{regexp.MustCompile(`^(?:\w+='[^']*' )*go run (\./\S+)(.*)$`), func(t *testing.T, m []string) {
		program, arguments := m[1], strings.Fields(m[2])
		if program == "./cmd/pgcoord" && len(arguments) > 0 {
			wantHelp(t, program, arguments[0])
			return
		}
		wantFile(t, filepath.Join(program, "main.go"))
		for _, argument := range arguments {
			if name, ok := strings.CutPrefix(argument, "-"); ok {
				wantText(t, filepath.Join(program, "main.go"), `("`+name+`"`)
			}
		}
	}},
	{regexp.MustCompile(`^go test( \S+)*? (\./\S+)( .*)?$`), func(t *testing.T, m []string) {
		wantFile(t, strings.TrimSuffix(m[2], "..."))
	}},
	{regexp.MustCompile(`^go get (\S+)$`), func(t *testing.T, m []string) {
		wantText(t, "go.mod", "module "+m[1]+"\n")
	}},
	{regexp.MustCompile(`^go install -tags pgx5 (\S+)@(\S+)$`), func(t *testing.T, m []string) {
		wantText(t, ".ci/tools", m[1])
		wantText(t, ".ci/tools", "version="+m[2]+" tags=pgx5")
		wantText(t, "go.mod", " "+m[2]+"\n")
	}},
	{regexp.MustCompile(`^migrate -path "\$\(go list -m -f '\{\{\.Dir\}\}' (\S+)\)/(\S+)" \\$`), func(t *testing.T, m []string) {
		wantText(t, "go.mod", "module "+m[1]+"\n")
		wantFile(t, filepath.Join(m[2], "000001_tokens.up.sql"))
	}},
	{regexp.MustCompile(`^  -database '(\w+)://\S+[?&]x-migrations-table=(\w+)' (up|down|version)$`), func(t *testing.T, m []string) {
		if m[1] != "pgx5" || m[2] != migrations.Table {
			t.Errorf("scheme %s, table %s", m[1], m[2])
		}
	}},
	{regexp.MustCompile(`^make ([a-z-]+)(?: [A-Z]+='[^']*')?$`), func(t *testing.T, m []string) {
		wantText(t, "Makefile", "\n"+m[1]+":")
	}},
	{regexp.MustCompile(`^bash (\S+)$`), func(t *testing.T, m []string) { wantFile(t, m[1]) }},
}

func TestCommands(t *testing.T) {
	eachBlock(t, func(t *testing.T, d document, b block) {
		for i, line := range strings.Split(b.text, "\n") {
			line, _, _ = strings.Cut(line, "  #")
			line = strings.TrimRight(line, " ")
			known := false
			for _, c := range commands {
				if m := c.pattern.FindStringSubmatch(line); m != nil {
					known = true
					c.check(t, m)
				}
			}
			if !known {
				t.Errorf("%s:%d: nothing checks the command %q", d.name, b.line+i, line)
			}
		}
	}, "sh")
}

func wantFile(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, name)); err != nil {
		t.Error(err)
	}
}

func wantText(t *testing.T, name, text string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Error(err)
	} else if !strings.Contains(string(content), text) {
		t.Errorf("%s does not have %q", name, text)
	}
}

// wantHelp asks the program whether it knows the command.
func wantHelp(t *testing.T, program, command string) {
	t.Helper()
	cmd := exec.Command("go", "run", program, command, "--help")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), program[len("./cmd/"):]+" "+command) {
		t.Errorf("%s %s --help: %v: %s", program, command, err, out)
	}
}
