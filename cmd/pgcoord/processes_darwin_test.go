package main

import (
	"os/exec"
	"strings"
	"testing"
)

// processesOf lists the living processes of a command whose temporary folder is
// tmp: it is in the environment of all.
func processesOf(t *testing.T, tmp string) []string {
	t.Helper()
	out, err := exec.Command("ps", "-axEww", "-o", "pid=,command=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "TMPDIR="+tmp+" ") {
			found = append(found, line)
		}
	}
	return found
}
