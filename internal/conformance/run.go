package conformance

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// parallel is how many checks run at once: they wait more than they compute.
const parallel = "6"

// Main runs the tests of a strategy's package and exits. In a process that a
// check started, it serves that check instead.
func Main(m *testing.M, strategies ...Strategy) {
	if name, child := os.LookupEnv(childEnv); child {
		i := slices.IndexFunc(strategies, func(s Strategy) bool { return s.Name == name })
		if i < 0 {
			fmt.Fprintf(os.Stderr, "conformance: no strategy %q in this test binary\n", name)
			os.Exit(2)
		}
		serve(strategies[i], os.Stdin, os.Stdout)
		os.Exit(0)
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", parallel)
	}
	pgtest.Main(m)
}

// check proves one sentence of a clause.
type check struct {
	clause string
	name   string
	// when tells whether the sentence applies; nil: always.
	when func(Strategy) bool
	run  func(*world)
	// own asks for a database of the check's own, which it changes.
	own bool
	// server asks for a server of the check's own, with these settings.
	server map[string]string
}

func checks() []check {
	return slices.Concat(
		shapeChecks, transactionChecks, tokenChecks, crashChecks, exclusionChecks, guardChecks, processChecks,
		operationChecks, outcomeChecks, replyChecks, clockChecks, staleChecks, workChecks, lossChecks,
		keyChecks, boundChecks, settingChecks, cancelChecks, busyChecks, wakeChecks, groundChecks, historyChecks,
	)
}

// Run runs the checks of the given clauses, for instance "S3", and all of them
// when none is given.
func Run(t *testing.T, s Strategy, clauses ...string) {
	pgtest.Server(t)
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { // after the pools are closed
		// S13: nothing of the coordinators that were closed is left running.
		if err := goleak.Find(before); err != nil {
			t.Errorf("after all coordinators were closed: %v", err)
		}
	})
	shared := newDatabase(t, s, pgtest.DSN(t))
	// A group, so that what follows comes after the parallel checks.
	t.Run(s.Name, func(t *testing.T) {
		for _, c := range checks() {
			if len(clauses) > 0 && !slices.Contains(clauses, c.clause) || c.when != nil && !c.when(s) {
				continue
			}
			t.Run(c.clause+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(newWorld(t, c.name, c.database(t, s, shared)))
			})
		}
	})
	shared.deserted(t, "")
}

// database returns where the check takes place.
func (c check) database(t *testing.T, s Strategy, shared *database) *database {
	t.Helper()
	switch {
	case c.server != nil:
		server := pgtest.Dedicated(t, localpg.Options{Settings: c.server})
		d := newDatabase(t, s, pgtest.DSNOn(t, server))
		d.server = server
		return d
	case c.own:
		return newDatabase(t, s, pgtest.DSN(t))
	}
	return shared
}

func leases(s Strategy) bool        { return s.Leases }
func durableGuards(s Strategy) bool { return s.DurableGuards }
func excludes(s Strategy) bool      { return !s.Supersedes }
