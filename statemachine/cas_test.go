package statemachine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/statemachine"
)

// plain are the options of a transition that only moves the row.
var plain = statemachine.TransitionOptions{}

// born inserts an order of that id in a state.
func born(t testing.TB, db statemachine.DB, id int, state string) {
	t.Helper()
	exec(t, db, "INSERT INTO orders (id, status) VALUES ($1, $2)", id, state)
}

// stateOf returns where order 1 is.
func stateOf(t testing.TB, db statemachine.DB) string {
	t.Helper()
	return scan[string](t, db, "SELECT status::text FROM orders WHERE id = 1")
}

// result is what a call in another goroutine has returned.
type result struct {
	moved statemachine.Moved
	err   error
}

// goes calls fn in another goroutine.
func goes(fn func() (statemachine.Moved, error)) <-chan result {
	done := make(chan result, 1)
	go func() {
		moved, err := fn()
		done <- result{moved, err}
	}()
	return done
}

// waits returns once n sessions of the database wait for a lock.
func waits(t testing.TB, db statemachine.DB, n int) {
	t.Helper()
	pgtest.Eventually(t, 10*time.Second, "somebody waits for a lock", func() bool {
		return n <= scan[int](t, db, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	})
}

// begin begins a transaction that is rolled back at the end of the test.
func begin(t testing.TB, pool *pgxpool.Pool, o pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(within(t, 30*time.Second), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// refused fails the test unless err is a *StateError that matches want and not its
// counterpart, with that state.
func refused(t testing.TB, err, want error, now statemachine.State) statemachine.StateError {
	t.Helper()
	other := pgcoord.ErrLost
	if errors.Is(want, other) {
		other = pgcoord.ErrConflict
	}
	var state *statemachine.StateError
	if !errors.As(err, &state) || !errors.Is(err, want) || errors.Is(err, other) || state.Now != now {
		t.Fatalf("got %v, want a StateError that matches %v, in state %q", err, want, now)
	}
	return *state
}

// TestConcurrentMoves is case 01: the second waits for the first, and loses when
// that commits, and wins when that rolls back.
func TestConcurrentMoves(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]statemachine.TransitionOptions{
		"plain": plain, "recorded": {Record: true}, "raising": {RaiseToken: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, pool := within(t, 30*time.Second), newPool(t)
			m := newOrders(t, pool)
			born(t, pool, 1, "PENDING")
			for _, commits := range []bool{false, true} {
				tx := begin(t, pool, pgx.TxOptions{})
				first, err := m.Transition(ctx, tx, "1", "PENDING", "PROCESSING", o)
				if err != nil {
					t.Fatal(err)
				}
				second := goes(func() (statemachine.Moved, error) {
					return m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", o)
				})
				waits(t, pool, 1)
				if commits {
					err = tx.Commit(ctx)
				} else {
					err = tx.Rollback(ctx)
				}
				got := <-second
				switch {
				case err != nil:
					t.Fatal(err)
				case commits:
					refused(t, got.err, pgcoord.ErrConflict, "PROCESSING")
				case got.err != nil:
					t.Fatalf("after the rollback: %v", got.err)
				case o.RaiseToken && got.moved.Token <= first.Token:
					t.Fatalf("token %d after %d was drawn and rolled back", got.moved.Token, first.Token)
				}
				exec(t, pool, "UPDATE orders SET status = 'PENDING'")
			}
		})
	}
}

// TestConcurrentChange: a change that leaves the state alone is waited for, and no
// reason to lose.
func TestConcurrentChange(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	m := newOrders(t, pool)
	exec(t, pool, "ALTER TABLE orders ADD note text")
	born(t, pool, 1, "PENDING")
	tx := begin(t, pool, pgx.TxOptions{})
	exec(t, tx, "UPDATE orders SET note = 'changed' WHERE id = 1")
	second := goes(func() (statemachine.Moved, error) {
		return m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", plain)
	})
	waits(t, pool, 1)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-second; got.err != nil {
		t.Fatal(got.err)
	}
	if note := scan[string](t, pool, "SELECT note FROM orders"); note != "changed" {
		t.Errorf("note %q", note)
	}
}

// TestZombie is case 02, and M14: who was superseded has every write refused,
// though the row is in the very state that it left it in.
func TestZombie(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	claim := statemachine.TransitionOptions{RaiseToken: true}
	a, err := m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", claim)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Transition(ctx, pool, "1", "PROCESSING", "PENDING", plain); err != nil {
		t.Fatal(err)
	}
	b, err := m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", claim)
	if err != nil || b.Token <= a.Token {
		t.Fatalf("%v: token %d after %d", err, b.Token, a.Token)
	}
	for _, to := range []statemachine.State{"DONE", "FAILED", "PENDING"} {
		_, err := m.Transition(ctx, pool, "1", "PROCESSING", to, statemachine.TransitionOptions{Token: a.Token})
		if e := refused(t, err, pgcoord.ErrLost, "PROCESSING"); e.Token != b.Token || e.WantToken != a.Token {
			t.Errorf("to %s: %v", to, e.Error())
		}
	}
	if got := scan[int64](t, pool, "SELECT fencing_token FROM orders WHERE status = 'PROCESSING'"); got != b.Token {
		t.Errorf("token %d, want %d", got, b.Token)
	}
	done, err := m.Transition(ctx, pool, "1", "PROCESSING", "DONE", statemachine.TransitionOptions{Token: b.Token})
	if err != nil || done.Token != b.Token {
		t.Errorf("the current one: %+v, %v", done, err)
	}
	_, err = m.Transition(ctx, pool, "1", "PROCESSING", "FAILED", statemachine.TransitionOptions{Token: b.Token})
	refused(t, err, pgcoord.ErrConflict, "DONE") // by itself: not lost
}

// TestUnmoved is case 04: rows that must not move, and stay as they were.
func TestUnmoved(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	m := define(t, orders())
	exec(t, pool, `CREATE TABLE orders (id bigint, status text, fencing_token bigint)`)
	exec(t, pool, "INSERT INTO orders VALUES (1, NULL, 0), (2, 'PENDING', 0), (2, 'PENDING', 0), (3, 'PENDING', 0)")
	exec(t, pool, `CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	exec(t, pool, `CREATE TRIGGER keep BEFORE UPDATE ON orders FOR EACH ROW WHEN (OLD.id = 3) EXECUTE FUNCTION keep()`)
	for name, o := range map[string]statemachine.TransitionOptions{
		"plain": plain, "recorded": {Record: true}, "raising": {RaiseToken: true}, "not waiting": {NoWait: true},
	} {
		move := func(key string) error {
			_, err := m.Transition(ctx, pool, key, "PENDING", "PROCESSING", o)
			return err
		}
		if e := refused(t, move("1"), pgcoord.ErrConflict, ""); !e.Null || !strings.Contains(e.Error(), "NULL") {
			t.Errorf("%s: state NULL: %v", name, e.Error())
		}
		if err := move("2"); !errors.Is(err, pgcoord.ErrConflict) || !strings.Contains(err.Error(), "2 rows") {
			t.Errorf("%s: two rows: %v", name, err)
		}
		refused(t, move("3"), pgcoord.ErrConflict, "PENDING")
		if err := move("4"); !errors.Is(err, pgcoord.ErrNotFound) {
			t.Errorf("%s: no row: %v", name, err)
		}
	}
	if moved := scan[int](t, pool, "SELECT count(*) FROM orders WHERE status <> 'PENDING' OR fencing_token <> 0"); moved != 0 {
		t.Errorf("%d rows were moved", moved)
	}
	if recorded := scan[int](t, pool, "SELECT count(*) FROM pgcoord.transitions"); recorded != 0 {
		t.Errorf("%d transitions are recorded", recorded)
	}
}
