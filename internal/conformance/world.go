package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

const (
	// patience bounds one check.
	patience = 40 * time.Second
	// slack is what a bound of the contract may be exceeded by on a busy machine.
	slack = 3 * time.Second
	// long is a TTL or idle limit that a check does not live to see.
	long = time.Minute
)

// world is one check and what it knows of its database.
type world struct {
	*testing.T
	*database
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	nodes  int
}

func newWorld(t *testing.T, name string, d *database) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	w := &world{T: t, database: d, name: name, ctx: ctx, cancel: cancel}
	t.Cleanup(func() { d.deserted(t, name+" ") })
	return w
}

// exec runs SQL beside the strategy.
func (w *world) exec(sql string, args ...any) {
	w.Helper()
	_, err := w.admin.Exec(w.ctx, sql, args...)
	w.must(err, sql)
}

// key makes a key of the check's own ready to be claimed and counted.
func (w *world) key(name string) string {
	w.Helper()
	return w.exactKey(w.name + " " + name)
}

// exactKey does the same for a key that no other check uses.
func (w *world) exactKey(key string) string {
	w.Helper()
	w.exec("INSERT INTO ledger.counters (key, n) VALUES ($1, 0)", key)
	if w.strategy.Seed != nil {
		w.must(w.strategy.Seed(w.ctx, w.admin, key), "seed "+key)
	}
	return key
}

// within returns a context that ends after d.
func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.ctx, d)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) must(err error, what string) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// wants fails the check unless err matches target.
func (w *world) wants(err, target error, what string) {
	w.Helper()
	if !errors.Is(err, target) {
		w.Fatalf("%s: got error %v, want %v", what, err, target)
	}
}

// refused fails the check unless err is a definite failure.
func (w *world) refused(err error, what string) {
	w.Helper()
	if err == nil || errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		w.Fatalf("%s: got error %v, want a definite failure", what, err)
	}
}

// same fails the check unless got is want.
func same[V comparable](w *world, got, want V, what string) {
	w.Helper()
	if got != want {
		w.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// soon waits for done, for at most d.
func soon[V any](w *world, d time.Duration, done <-chan V, what string) V {
	w.Helper()
	select {
	case v := <-done:
		return v
	case <-time.After(d):
		w.Fatalf("not within %v: %s", d, what)
		panic("unreachable")
	}
}

// async runs fn in a goroutine that the check waits for at its end.
func async[V any](w *world, fn func() V) <-chan V {
	done, over := make(chan V, 1), make(chan struct{})
	go func() {
		defer close(over)
		done <- fn()
	}()
	w.Cleanup(func() { w.cancel(); <-over })
	return done
}

func (w *world) closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// begin opens a guarded transaction on claim and returns when its function runs.
// End makes the function return and gives BeginFunc's error.
func (w *world) begin(ctx context.Context, claim pgcoord.Claim, work func(pgx.Tx) error) (end func(error) error) {
	w.Helper()
	entered, leave := make(chan error, 2), make(chan error, 2)
	result := async(w, func() error {
		err := claim.BeginFunc(ctx, func(tx pgx.Tx) error {
			entered <- work(tx)
			return <-leave
		})
		entered <- fmt.Errorf("BeginFunc returned: %w", err)
		return err
	})
	w.Cleanup(func() { leave <- errors.New("the check is over") })
	w.must(soon(w, patience, entered, "the guarded transaction begins"), "begin")
	return func(err error) error {
		leave <- err
		return soon(w, patience, result, "BeginFunc returns")
	}
}

// waitsForLock returns when a statement of n waits for a lock on the server.
func (w *world) waitsForLock(n *node) {
	w.Helper()
	pgtest.Eventually(w, patience, n.name+" waits for a lock", func() bool {
		var waits bool
		err := w.admin.QueryRow(w.ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1 AND wait_event_type = 'Lock')`, n.name).Scan(&waits)
		return err == nil && waits
	})
}

// asked returns when n has asked the server for something.
func (w *world) asked(n *node) {
	w.Helper()
	pgtest.Eventually(w, patience, n.name+" has connected", func() bool {
		var done bool
		err := w.admin.QueryRow(w.ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1 AND query <> '')`, n.name).Scan(&done)
		return err == nil && done
	})
}

// sleepUnder works under claim for a while, so that those who wait for it have
// settled down to wait. Nothing depends on it but what the check can reach.
func (w *world) sleepUnder(claim pgcoord.Claim) {
	w.Helper()
	w.must(claim.BeginFunc(w.ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(w.ctx, "SELECT pg_sleep(0.3)")
		return err
	}), "BeginFunc")
}
