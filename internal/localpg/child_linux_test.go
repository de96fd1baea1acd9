package localpg

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ownBinary copies this test binary to where every account can run it.
func ownBinary(t *testing.T) string {
	t.Helper()
	dir := openFolder(t, "") // a file system in memory may be mounted noexec
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "localpg.test")
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// child is this binary, run again with a server of its own.
type child struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
}

func startChild(t *testing.T, cmd *exec.Cmd) *child {
	t.Helper()
	cmd.Env = append(os.Environ(), envChild+"=1")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, bufio.NewReader(stdout)}
	t.Cleanup(c.kill)
	return c
}

// folder waits for the child's server and returns its folder.
func (c *child) folder(t *testing.T) string {
	t.Helper()
	line, err := c.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("the child did not start a server: %v", err)
	}
	return strings.TrimSpace(line)
}

// kill ends the child with SIGKILL and waits for it.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // a repetition finds it ended
	_ = c.cmd.Wait()
}
