package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// asCommand in the environment makes this test binary the pgcoord command; the
// workers that it starts inherit it.
const asCommand = "PGCOORD_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	pgtest.Main(m)
}

// pgcoordCommand returns the command with args. Its temporary files go to tmp,
// which also marks its processes: see processesOf.
func pgcoordCommand(t *testing.T, tmp string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+tmp)
	if pgtest.Server(t).Kind() == localpg.KindURL {
		cmd.Env = append(cmd.Env, localpg.EnvURL+"="+pgtest.EmptyDSN(t))
	}
	return cmd
}

// openFolder makes a temporary folder that any account can search, unlike that
// of t.TempDir.
func openFolder(t *testing.T) string {
	t.Helper()
	tmp, err := os.MkdirTemp("", "pgcoord-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(tmp); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	return tmp
}

// outcome is how a command ended.
type outcome struct {
	status         int
	stdout, stderr string
}

func runPgcoord(t *testing.T, args ...string) outcome {
	t.Helper()
	tmp := openFolder(t)
	cmd := pgcoordCommand(t, tmp, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	requireNothingLeft(t, tmp)
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func requireNothingLeft(t *testing.T, tmp string) {
	t.Helper()
	if left := processesOf(t, tmp); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
	entries, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("left behind: %s", e.Name())
	}
}

func TestCommandLine(t *testing.T) {
	cases := map[string]struct {
		args   []string
		status int
		stdout string // what must be in it
		stderr string
	}{
		"no command":       {nil, 0, "demo", ""},
		"help":             {[]string{"help"}, 0, "demo", ""},
		"help of the demo": {[]string{"demo", "--help"}, 0, "--database-url", ""},
		"unknown command":  {[]string{"dmo"}, 1, "", `no command "dmo"`},
		"unknown flag":     {[]string{"demo", "--jsn"}, 1, "", "jsn"},
		"extra argument":   {[]string{"demo", "now"}, 1, "", "takes no arguments"},
		"bad URL":          {[]string{"demo", "--json", "--database-url", "postgres://%"}, 1, "", "database-url"},
		"no server": {
			[]string{"demo", "--json", "--database-url", "postgres://nobody@127.0.0.1:1/none"},
			1, "", "127.0.0.1:1",
		},
		"worker by hand": {[]string{"demo-worker"}, 1, "", "started by pgcoord demo"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := runPgcoord(t, c.args...)
			if o.status != c.status || !strings.Contains(o.stdout, c.stdout) || !strings.Contains(o.stderr, c.stderr) {
				t.Errorf("got %+v, want status %d, %q on stdout and %q on stderr", o, c.status, c.stdout, c.stderr)
			}
			if strings.Contains(o.stdout, "demo-worker") {
				t.Errorf("the hidden command is shown: %s", o.stdout)
			}
			if c.status != 0 && strings.Contains(strings.Join(c.args, " "), "--json") && o.stdout != "" {
				t.Errorf("on stdout: %q", o.stdout)
			}
		})
	}
}
