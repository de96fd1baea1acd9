package localpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// spawn starts cmd as the account, in a process group of its own, so that a
// Ctrl-C at the terminal does not end the server before the program that uses it.
//
// The kernel sends SIGINT, a clean shutdown, when the thread that started the
// process ends; however this process ends. The thread is kept for that.
func spawn(cmd *exec.Cmd, a account) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: a.credential,
		Pdeathsig:  syscall.SIGINT,
		Setpgid:    true,
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// owner is the lock on a folder. The kernel drops it when the process ends.
type owner struct{ file *os.File }

var errOwned = errors.New("in use")

func lockOwner(path string) (*owner, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return flock(file)
}

// adoptOwner takes the lock of a folder that another process has left behind;
// errOwned when it has not.
func adoptOwner(path string) (*owner, error) {
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return flock(file)
}

func flock(file *os.File) (*owner, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &owner{file}, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errOwned
	}
	return nil, err
}

func (o *owner) release() error { return o.file.Close() }

// endStray ends the server that runs on a data folder without an owner. The
// kernel has told a local one to end, but not one whose parent was another
// program.
func endStray(data string) error {
	content, err := os.ReadFile(filepath.Join(data, lockFile))
	if err != nil {
		return killAllIn(data) // a server's first process has ended
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err == nil && runsOn(pid, data) {
		if err := syscall.Kill(pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		for deadline := time.Now().Add(strayLimit); runsOn(pid, data) && time.Now().Before(deadline); {
			time.Sleep(pollInterval)
		}
	}
	return killAllIn(data)
}

// strayLimit is how long a server without an owner has to end.
const strayLimit = 5 * time.Second

// killAllIn ends the processes that work in a data folder, as all of a server's
// do, and waits for them.
func killAllIn(data string) error {
	for deadline := time.Now().Add(strayLimit); ; time.Sleep(pollInterval) {
		found := false
		links, err := filepath.Glob("/proc/[0-9]*/cwd")
		if err != nil {
			return err
		}
		for _, link := range links {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			if err != nil || !runsOn(pid, data) {
				continue
			}
			found = true
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if !found {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes in %s do not end", data)
		}
	}
}

// runsOn reports whether pid is a process of a server on that data folder, and
// not another that was given the same number, or somebody's shell.
func runsOn(pid int, data string) bool {
	process := filepath.Join("/proc", strconv.Itoa(pid))
	cwd, err := os.Readlink(filepath.Join(process, "cwd"))
	if err != nil || cwd != data {
		return false
	}
	exe, err := os.Readlink(filepath.Join(process, "exe"))
	return err == nil && filepath.Base(exe) == "postgres"
}

// memoryFolder is a file system in memory.
const memoryFolder = "/dev/shm"

// hasRoom reports whether a file system has room for the servers of a test run.
func hasRoom(path string) bool {
	const enough = 2 << 30
	var stat syscall.Statfs_t
	return syscall.Statfs(path, &stat) == nil && stat.Bavail*uint64(stat.Bsize) >= enough
}
