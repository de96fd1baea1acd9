package integration

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// account returns whom daemons run as that refuse root, and gives them dir; nil
// for this process's own.
func account(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, uidErr := strconv.Atoi(postgres.Uid)
	gid, gidErr := strconv.Atoi(postgres.Gid)
	if uidErr != nil || gidErr != nil {
		t.Fatal(uidErr, gidErr)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// folder makes one that a daemon of another account can use; t.TempDir as root
// cannot be entered.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pgcoord-integration-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// daemon starts a command and waits until ready; it is interrupted at cleanup.
func daemon(t *testing.T, cmd *exec.Cmd, ready func() bool) {
	t.Helper()
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended shows in its log
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("does not end when interrupted, killing it")
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("%s:\n%s", cmd.Path, log.String())
		}
	})
	pgtest.Eventually(t, 20*time.Second, cmd.Path+" answers", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s ended", cmd.Path)
		default:
		}
		return ready()
	})
}
