//go:build !linux

package localpg

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// spawn starts cmd. Where there is a POSIX shell, a watcher ends it when this
// process ends, however that happens: the watcher's standard input is a pipe
// that only this process holds open.
func spawn(cmd *exec.Cmd, _ account) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	unwatch := watch(p.pid())
	go func() {
		p.err = cmd.Wait()
		unwatch()
		close(p.done)
	}()
	return p, nil
}

// watch starts the watcher and returns what dismisses it. Any line dismisses it:
// the pid may be another process's by then.
func watch(pid int) (dismiss func()) {
	nothing := func() {}
	shell, err := exec.LookPath("sh")
	if err != nil {
		return nothing
	}
	watcher := exec.Command(shell, "-c", `read -r line || kill -INT "$1"`, "sh", strconv.Itoa(pid))
	stdin, err := watcher.StdinPipe()
	if err != nil {
		return nothing
	}
	if err := watcher.Start(); err != nil {
		return nothing
	}
	return func() {
		_, _ = io.WriteString(stdin, "\n")
		_ = stdin.Close()
		_ = watcher.Wait()
	}
}

// owner is the file that names the process to which a folder belongs.
type owner struct{}

var errOwned = errors.New("in use")

func lockOwner(path string) (*owner, error) {
	return &owner{}, os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o600)
}

// adoptOwner returns errOwned while the process that a folder belongs to lives.
// A process that was given its number meanwhile delays the sweep.
func adoptOwner(path string) (*owner, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err == nil && alive(pid) {
		return nil, errOwned
	}
	return &owner{}, nil
}

func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

func (*owner) release() error { return nil }

// endStray leaves the server to its watcher. One that runs on all the same ends
// within a minute of its folder's removal, when it misses its lock file.
func endStray(string) error { return nil }

// killAllIn leaves orphans to notice by themselves.
func killAllIn(string) error { return nil }

// memoryFolder is where Linux has a file system in memory.
const memoryFolder = "/dev/shm"

func hasRoom(string) bool { return false }
