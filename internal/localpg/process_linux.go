package localpg

import (
	"errors"
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
		return nil // none runs
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return nil
	}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		if !runsOn(pid, data) {
			return nil
		}
		if err := syscall.Kill(pid, signal); err != nil {
			return err
		}
		for deadline := time.Now().Add(strayLimit); runsOn(pid, data) && time.Now().Before(deadline); {
			time.Sleep(pollInterval)
		}
	}
	return nil
}

// strayLimit is how long a server without an owner has to follow each signal.
const strayLimit = 5 * time.Second

// runsOn reports whether pid is a server on that data folder, and not another
// process that was given the same number.
func runsOn(pid int, data string) bool {
	cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	return err == nil && cwd == data
}

// memoryFolder is a file system in memory.
const memoryFolder = "/dev/shm"

// hasRoom reports whether a file system has room for the servers of a test run.
func hasRoom(path string) bool {
	const enough = 2 << 30
	var stat syscall.Statfs_t
	return syscall.Statfs(path, &stat) == nil && uint64(stat.Bavail)*uint64(stat.Bsize) >= enough
}
