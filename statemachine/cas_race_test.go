package statemachine_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/statemachine"
)

// TestIsolation is case 05 for roles whose default is not READ COMMITTED: one
// winner, and a loser that is told the state, not a serialization failure.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			ctx := within(t, 30*time.Second)
			dsn := pgtest.DSN(t)
			pool := pgtest.Pool(t, dsn, func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			})
			m := newOrders(t, pool)
			born(t, pool, 1, "PENDING")
			tx := begin(t, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
			if _, err := m.Transition(ctx, tx, "1", "PENDING", "PROCESSING", plain); err != nil {
				t.Fatal(err)
			}
			second := goes(func() (statemachine.Moved, error) {
				return m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", plain)
			})
			waits(t, pool, 1)
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			refused(t, (<-second).err, pgcoord.ErrConflict, "PROCESSING")
			if _, err := m.Transition(ctx, pool, "1", "PROCESSING", "DONE", statemachine.TransitionOptions{Record: true}); err != nil {
				t.Fatal(err)
			}
			if errs := pgtest.LogErrors(t, dsn); len(errs) > 0 {
				t.Errorf("in the server's log: %q", errs)
			}
		})
	}
}

// TestCallersIsolation is case 05 in a transaction of the caller: the loser learns
// that it is over.
func TestCallersIsolation(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	tx := begin(t, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	scan[int](t, tx, "SELECT 1") // its snapshot
	if _, err := m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", plain); err != nil {
		t.Fatal(err)
	}
	_, err := m.Transition(ctx, tx, "1", "PENDING", "PROCESSING", plain)
	var pgErr *pgconn.PgError
	if !errors.Is(err, pgcoord.ErrConflict) || !errors.As(err, &pgErr) || pgErr.Code != "40001" || !strings.Contains(err.Error(), "transaction is aborted") {
		t.Errorf("the loser: %v", err)
	}
}

// TestOneWinner: of a thousand callers on one row one wins, and the server has
// nothing to complain about.
func TestOneWinner(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	dsn := pgtest.DSN(t)
	pool := pgtest.Pool(t, dsn, func(c *pgxpool.Config) { c.MaxConns = 8 })
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	var won, lost atomic.Int64
	var group sync.WaitGroup
	start := make(chan struct{})
	for range 1000 {
		group.Go(func() {
			<-start
			_, err := m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", statemachine.TransitionOptions{Record: true})
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, pgcoord.ErrConflict):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	close(start)
	group.Wait()
	if won.Load() != 1 || lost.Load() != 999 {
		t.Errorf("%d won, %d lost", won.Load(), lost.Load())
	}
	if n := scan[int](t, pool, "SELECT count(*) FROM pgcoord.transitions"); n != 1 {
		t.Errorf("%d transitions are recorded", n)
	}
	if errs := pgtest.LogErrors(t, dsn); len(errs) > 0 {
		t.Errorf("in the server's log: %q", errs)
	}
}

// TestTwoRacers: the same by two, from connections of their own, many times.
func TestTwoRacers(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 60*time.Second), newPool(t)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	for range 50 {
		racer := func() (statemachine.Moved, error) {
			return m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", plain)
		}
		a, b := goes(racer), goes(racer)
		first, second := <-a, <-b
		if (first.err == nil) == (second.err == nil) {
			t.Fatalf("%v and %v", first.err, second.err)
		}
		refused(t, errors.Join(first.err, second.err), pgcoord.ErrConflict, "PROCESSING")
		if _, err := m.Transition(ctx, pool, "1", "PROCESSING", "PENDING", plain); err != nil {
			t.Fatal(err)
		}
	}
}
