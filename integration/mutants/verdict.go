package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// verdict is what became of a mutant. Without an error a test went red.
type verdict struct {
	test string // the first that went red
	line int    // that was changed
	took time.Duration
	err  error
}

func (v verdict) String() string {
	if v.err != nil {
		return "ERROR: " + v.err.Error()
	}
	return fmt.Sprintf("red: %s, %v", v.test, v.took.Round(time.Second))
}

var errSurvived = errors.New("survived: the tests pass")

// try makes a copy of the tree, breaks it and runs the tests that are to notice.
func try(ctx context.Context, tree string, m mutant) (v verdict) {
	began := time.Now()
	copied, err := os.MkdirTemp(filepath.Dir(tree), "mutant-*")
	if err != nil {
		return verdict{err: err}
	}
	defer os.RemoveAll(copied)
	if err := copyTree(tree, copied); err != nil {
		return verdict{err: err}
	}
	line, err := m.apply(copied)
	if err != nil {
		return verdict{err: err}
	}
	r := test(ctx, testLimit, filepath.Join(copied, m.dir), m.testPackage(), m.run)
	v = verdict{line: line, test: r.firstRed(m.run), took: time.Since(began), err: r.usable()}
	switch {
	case v.err != nil:
	case r.failed && v.test == "":
		v.err = fmt.Errorf("red before the tests that are meant have begun:\n%s", r.output.String())
	case r.failed:
	case r.deepest < strings.Count(m.run, "/"):
		v.err = errors.New("the pattern matches no subtest")
	default:
		v.err = errSurvived
	}
	return v
}

// soundBefore runs the tests of all mutants without any: red must come from the
// mutant. It also finds patterns that match no test.
func soundBefore(ctx context.Context, tree string, chosen []mutant) error {
	type place struct{ dir, pkg string }
	patterns := map[place][]string{}
	var places []place
	for _, m := range chosen {
		p := place{m.dir, m.testPackage()}
		if patterns[p] == nil {
			places = append(places, p)
		}
		if !slices.Contains(patterns[p], m.run) {
			patterns[p] = append(patterns[p], m.run)
		}
	}
	for _, p := range places {
		r := test(ctx, soundLimit, filepath.Join(tree, p.dir), p.pkg, strings.Join(patterns[p], "|"))
		if err := r.usable(); err != nil {
			return fmt.Errorf("%s without mutants: %w", p.pkg, err)
		}
		if r.failed {
			return fmt.Errorf("%s without mutants: %s is red:\n%s", p.pkg, r.firstRed(""), r.output.String())
		}
	}
	return nil
}
