package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// processesOf lists the living processes of a command whose temporary folder is
// tmp: it is in the environment of all, and a server's working folder is in it.
func processesOf(t *testing.T, tmp string) []string {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, folder := range folders {
		// A process that ends meanwhile, or is another user's, cannot be read.
		environ, _ := os.ReadFile(filepath.Join(folder, "environ"))
		cwd, _ := os.Readlink(filepath.Join(folder, "cwd"))
		if !strings.Contains(string(environ), "TMPDIR="+tmp+"\x00") && !strings.HasPrefix(cwd, tmp) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		args := strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " "))
		found = append(found, fmt.Sprintf("%s (%s)", filepath.Base(folder), args))
	}
	return found
}
