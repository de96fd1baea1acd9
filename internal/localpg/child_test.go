package localpg

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// envChild makes this binary a process that starts a server, prints where its
// folder is, and lives on.
const envChild = "PGCOORD_LOCALPG_CHILD"

func runChild() {
	server, err := Start(context.Background(), Options{Own: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch b := server.backend.(type) {
	case *local:
		fmt.Println(b.folder.path)
	case *container:
		fmt.Println(b.folder.path)
	}
	select {}
}

// privateTemp makes a temporary folder that every account can use and no other
// test binary sweeps, and makes it this process's own.
func privateTemp(t *testing.T) string {
	t.Helper()
	base := os.TempDir()
	if hasRoom(memoryFolder) {
		base = memoryFolder
	}
	dir := openFolder(t, base)
	t.Setenv("TMPDIR", dir)
	return dir
}

// openFolder makes a folder that every account can use.
func openFolder(t *testing.T, base string) string {
	t.Helper()
	dir, err := os.MkdirTemp(base, "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

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
