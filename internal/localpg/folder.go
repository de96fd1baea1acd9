package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// folderPrefix marks the folders in the machine's temporary folder that are ours.
const folderPrefix = "pgcoord-postgres-"

// strayAge is how old a folder without an owner must be before it is swept: one
// that is just being made has none yet.
const strayAge = 10 * time.Minute

// folder is where one server keeps its data and log. Its owner file is locked
// as long as this process lives.
type folder struct {
	path  string
	owner *owner
}

// lockFile is the server's own lock file in its data folder.
const lockFile = "postmaster.pid"

func (f *folder) data() string { return filepath.Join(f.path, "data") }
func (f *folder) log() string  { return filepath.Join(f.path, "log") }

// readLog returns what the server has logged so far.
func (f *folder) readLog() string {
	content, err := os.ReadFile(f.log())
	if err != nil {
		return "" // it has not started yet, or was stopped
	}
	return string(content)
}

// newFolder makes a folder that the account can use.
func newFolder(a account, inMemory bool) (*folder, error) {
	base := os.TempDir()
	if inMemory && hasRoom(memoryFolder) {
		base = memoryFolder
	}
	if !a.canReach(base) {
		base = "/tmp" // os.TempDir is private to root
	}
	path, err := os.MkdirTemp(base, folderPrefix)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	if f.owner, err = lockOwner(filepath.Join(path, "owner")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	if err := a.own(path); err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

// remove deletes the folder. The lock goes last: a sweeper that comes in
// between must not find the folder unlocked while a server may be in it.
func (f *folder) remove() error {
	err := removeAll(f.path)
	return errors.Join(err, f.owner.release())
}

// removeAll deletes path, again when something was added meanwhile: a server
// that is just ending can write its last file.
func removeAll(path string) error {
	var err error
	for range 100 {
		if err = os.RemoveAll(path); err == nil {
			return nil
		}
		time.Sleep(pollInterval)
	}
	return err
}

// sweep removes the folders of processes that have ended without Stop, and ends
// a server that still runs in one. What it may not touch, it leaves.
func sweep(logf func(string, ...any)) {
	bases := []string{os.TempDir(), "/tmp", memoryFolder}
	slices.Sort(bases)
	for _, base := range slices.Compact(bases) {
		paths, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
		for _, path := range paths {
			if err := sweepOne(path, logf); err != nil {
				logf("localpg: sweep %s: %v", path, err)
			}
		}
	}
}

func sweepOne(path string, logf func(string, ...any)) error {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return nil // gone meanwhile, or not ours
	}
	owner, err := adoptOwner(filepath.Join(path, "owner"))
	switch {
	case errors.Is(err, errOwned), errors.Is(err, fs.ErrPermission):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if time.Since(info.ModTime()) < strayAge {
			return nil
		}
	case err != nil:
		return err
	default:
		defer func() { _ = owner.release() }() // the folder is gone by then
	}
	logf("localpg: removing %s, left by a process that was killed", path)
	if err := endStray(filepath.Join(path, "data")); err != nil {
		return fmt.Errorf("its server: %w", err)
	}
	if err := removeContainer(path); err != nil {
		return err
	}
	return removeAll(path)
}
