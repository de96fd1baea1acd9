package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// testLimit bounds the tests of a mutant: one that hangs is red.
	testLimit = 2 * time.Minute
	// soundLimit bounds all of them together, without a mutant.
	soundLimit = 15 * time.Minute
	// buildLimit comes on top of it.
	buildLimit = 5 * time.Minute
)

// result is what go test said.
type result struct {
	failed   bool
	ran      int      // tests that began
	deepest  int      // how many tests one of them is in
	red      []string // those that failed, in the order in which they ended
	open     []string // those that never ended
	compiled bool
	output   strings.Builder
	err      error // go test did not work at all
}

// event is one line of go test -json.
type event struct{ Action, Test, Output, FailedBuild string }

// test runs the tests of pkg that match pattern in the module at dir. Without the
// path of the copy in them, packages that are not changed come from the cache.
func test(parent context.Context, limit time.Duration, dir, pkg, pattern string) *result {
	ctx, cancel := context.WithTimeout(parent, limit+buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-trimpath", "-vet=off",
		"-timeout", limit.String(), "-run", pattern, pkg)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go ends the tests it runs
	cmd.WaitDelay = 10 * time.Second
	r := &result{compiled: true}
	cmd.Stderr = &r.output
	out, err := cmd.StdoutPipe()
	if err != nil {
		return &result{err: err}
	}
	if err := cmd.Start(); err != nil {
		return &result{err: err}
	}
	r.err = r.read(out)
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		r.failed, err = true, nil
	}
	r.err = errors.Join(r.err, err, ctx.Err())
	return r
}

func (r *result) read(out io.Reader) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			r.output.WriteString(lines.Text() + "\n")
			continue
		}
		r.add(e)
	}
	return lines.Err()
}

func (r *result) add(e event) {
	r.output.WriteString(e.Output)
	if e.FailedBuild != "" || e.Action == "build-fail" {
		r.compiled = false
	}
	if e.Test == "" {
		return
	}
	switch e.Action {
	case "run":
		r.ran++
		r.deepest = max(r.deepest, strings.Count(e.Test, "/"))
		r.open = append(r.open, e.Test)
	case "pass", "skip":
		r.ended(e.Test)
	case "fail":
		r.ended(e.Test)
		r.red = append(r.red, e.Test)
	}
}

func (r *result) ended(test string) {
	if i := slices.Index(r.open, test); i >= 0 {
		r.open = slices.Delete(r.open, i, i+1)
	}
}

// badSQL are errors of statements that PostgreSQL does not understand: syntax,
// undefined columns, functions, tables, types that do not fit, parameters without
// a type or in the wrong number.
var badSQL = regexp.MustCompile(`\(SQLSTATE (42601|42703|42883|42804|42P18|42P08|08P01)\)|expected \d+ arguments, got`)

// usable returns an error when the result says nothing about the tests.
func (r *result) usable() error {
	switch {
	case r.err != nil:
		return fmt.Errorf("go test: %w\n%s", r.err, r.output.String())
	case !r.compiled:
		return fmt.Errorf("it does not compile:\n%s", r.output.String())
	case r.ran == 0:
		return fmt.Errorf("the pattern matches no test\n%s", r.output.String())
	case badSQL.MatchString(r.output.String()):
		return fmt.Errorf("its SQL does not run:\n%s", r.output.String())
	}
	return nil
}

// firstRed names the first test that failed at the depth of pattern: one above has
// not come as far as the tests that are meant.
func (r *result) firstRed(pattern string) string {
	deep := func(test string) bool { return strings.Count(test, "/") >= strings.Count(pattern, "/") }
	if i := slices.IndexFunc(r.red, deep); i >= 0 {
		return r.red[i]
	}
	for _, test := range slices.Backward(r.open) { // the process has ended under it
		if deep(test) {
			return test + " (hung or crashed)"
		}
	}
	return ""
}
