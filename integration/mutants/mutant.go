package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// edit replaces a piece of a file's text, which must be in it exactly once.
type edit struct{ file, old, new string }

// mutant is one fault that the tests must find.
type mutant struct {
	name   string // a few words with dashes; the first is what is broken
	clause string // of the contract that it breaks: S1 to S15
	edit
	also []edit // what has to change with it
	dir  string // of the module to test; "" is the root
	pkg  string // whose tests are to go red; "" is ./uniquelock
	run  string // the pattern for go test -run: the tests that are to go red
}

// mutants are all of them. Not among them, because the change has no effect that the
// contract speaks of:
//
//   - now() for clock_timestamp() in statements that never wait for a lock;
//   - the order of rows in a renewal, which skips what is locked;
//   - a guard that waits for a locked row instead of skipping it: it looks at the row
//     again when it has it, and is bounded by its context either way;
//   - the command tag of COMMIT: a failed transaction is seen before that is sent;
//   - the looks at a context that has ended before a try or a guard: taking a
//     connection of the pool looks at it too;
//   - complete_task's exact claim behind a guard, whose lock already holds the claim.
func mutants() []mutant {
	return slices.Concat(
		tokenMutants, durableMutants, exclusionMutants, guardMutants, operationMutants, outcomeMutants, clockMutants,
		identityMutants, workMutants, lossMutants, keyMutants, boundMutants, cancelMutants, waitMutants, groundMutants,
	)
}

func (m mutant) testPackage() string {
	if m.pkg == "" {
		return "./uniquelock"
	}
	return m.pkg
}

// apply changes the tree at root and returns the line of the first change.
func (m mutant) apply(root string) (line int, err error) {
	line, err = m.edit.apply(root)
	for _, e := range m.also {
		if _, also := e.apply(root); also != nil {
			err = errors.Join(err, also)
		}
	}
	return line, err
}

func (e edit) apply(root string) (line int, err error) {
	name := filepath.Join(root, filepath.FromSlash(e.file))
	content, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	text := string(content)
	if n := strings.Count(text, e.old); n != 1 {
		return 0, fmt.Errorf("%s has this text %d times, not once: %q", e.file, n, e.old)
	}
	at := strings.Index(text, e.old)
	line = 1 + strings.Count(text[:at+differ(e.old, e.new)], "\n")
	return line, os.WriteFile(name, []byte(text[:at]+e.new+text[at+len(e.old):]), 0o644)
}

// differ returns where two texts begin to differ.
func differ(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return min(n, len(a)-1)
}
