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

// step is the part of the machine orders that a worker performs.
func step() statemachine.Step {
	return statemachine.Step{Ready: "PENDING", Working: "PROCESSING", Done: "DONE", Failed: "FAILED"}
}

// newCoordinator returns a coordinator that is closed at the end of the test.
func newCoordinator(t testing.TB, pool *pgxpool.Pool, m *statemachine.Machine, change ...func(*statemachine.Options)) *statemachine.Coordinator {
	t.Helper()
	opts := statemachine.Options{Machine: m, Step: step()}
	for _, c := range change {
		c(&opts)
	}
	c, err := statemachine.New(pool, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func claim(t testing.TB, c *statemachine.Coordinator, key string) *statemachine.Attempt {
	t.Helper()
	a, err := c.TryClaim(within(t, 10*time.Second), key)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// expire ends a's lease in the database, as the passing of its TTL would in a
// process that does not renew.
func expire(t testing.TB, pool *pgxpool.Pool, a *statemachine.Attempt) {
	t.Helper()
	statemachine.StopRenewal(a)
	exec(t, pool, "UPDATE pgcoord.attempts SET expires_at = clock_timestamp() - interval '1 second' WHERE key = $1 AND token = $2", a.Key(), a.Token())
}

func state(t testing.TB, pool *pgxpool.Pool, id string) string {
	t.Helper()
	return scan[string](t, pool, "SELECT status::text FROM orders WHERE id::text = $1", id)
}

func outcomes(t testing.TB, pool *pgxpool.Pool, key string) string {
	t.Helper()
	return scan[string](t, pool, `SELECT coalesce(string_agg(attempt || ' ' || coalesce(outcome, 'open'), ', ' ORDER BY token), '')
		FROM pgcoord.attempts WHERE key = $1`, key)
}

func insertOrders(t testing.TB, pool *pgxpool.Pool, from, to int) {
	t.Helper()
	exec(t, pool, "INSERT INTO orders (id, status) SELECT n, 'PENDING' FROM generate_series($1::int, $2::int) n", from, to)
}

func TestClaimToDone(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 3)
	exec(t, pool, "CREATE TABLE effects (token bigint)")
	a, b := newCoordinator(t, pool, m, func(o *statemachine.Options) { o.Holder = "A" }), newCoordinator(t, pool, m)

	x := claim(t, a, "1")
	if x.Number() != 1 || state(t, pool, "1") != "PROCESSING" {
		t.Fatalf("attempt %d, row %s", x.Number(), state(t, pool, "1"))
	}
	if token := scan[int64](t, pool, "SELECT fencing_token FROM orders WHERE id = 1"); token != x.Token() {
		t.Errorf("row's token %d, claim's %d", token, x.Token())
	}
	_, err := b.TryClaim(ctx, "1")
	var held *pgcoord.HeldError
	if !errors.As(err, &held) || held.Holder != "A" || held.Token != x.Token() || held.Until.IsZero() {
		t.Errorf("second claim: %v", err)
	}
	effect := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1)", x.Token())
		return err
	}
	if err := x.BeginFunc(ctx, effect); err != nil {
		t.Fatal(err)
	}
	if err := x.CompleteWith(ctx, map[string]int{"paid": 7}, effect); err != nil {
		t.Fatal(err)
	}
	if err := x.Complete(ctx, effect); !errors.Is(err, pgcoord.ErrDone) {
		t.Errorf("second complete: %v", err)
	}
	if err := x.Release(ctx); err != nil {
		t.Errorf("release after complete: %v", err)
	}
	if s, n := state(t, pool, "1"), scan[int](t, pool, "SELECT count(*) FROM effects"); s != "DONE" || n != 2 {
		t.Errorf("row %s, %d effects", s, n)
	}
	if paid := scan[int](t, pool, "SELECT (result->>'paid')::int FROM pgcoord.attempts"); paid != 7 {
		t.Errorf("result %d", paid)
	}
	for key, want := range map[string]error{"1": pgcoord.ErrDone, "99": pgcoord.ErrNotFound, "01": pgcoord.ErrInvalidKey, "x": pgcoord.ErrInvalidKey, "": pgcoord.ErrInvalidKey} {
		if _, err := b.TryClaim(ctx, key); !errors.Is(err, want) {
			t.Errorf("claim %q: %v", key, err)
		}
		if _, err := b.Claim(ctx, key); !errors.Is(err, want) {
			t.Errorf("waiting claim %q: %v", key, err)
		}
	}
	y := claim(t, a, "2")
	if err := y.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := y.Release(ctx); err != nil {
		t.Fatal(err)
	}
	z := claim(t, b, "2")
	if z.Number() != 2 || z.Token() <= y.Token() {
		t.Errorf("attempt %d, token %d after %d", z.Number(), z.Token(), y.Token())
	}
	if err := y.Release(ctx); err != nil { // by the claim, never by the key
		t.Fatal(err)
	}
	if err := z.Complete(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if got := outcomes(t, pool, "2"); got != "1 released, 2 done" {
		t.Error(got)
	}
	exec(t, pool, "UPDATE orders SET status = 'FAILED' WHERE id = 3")
	if _, err := b.TryClaim(ctx, "3"); !errors.Is(err, pgcoord.ErrConflict) {
		t.Errorf("a failed row: %v", err)
	}
}

// Cases M1, 02 and M14: a dead worker's row goes to the next claim; the dead one's
// late writes are refused, whatever state the row is in again.
func TestDeadWorker(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	a, b := newCoordinator(t, pool, m), newCoordinator(t, pool, m, func(o *statemachine.Options) { o.Holder = "B" })
	late := map[string]func(*statemachine.Attempt) error{
		"guard":              func(a *statemachine.Attempt) error { return a.BeginFunc(ctx, effect(t)) },
		"complete":           func(a *statemachine.Attempt) error { return a.Complete(ctx, nil) },
		"complete with work": func(a *statemachine.Attempt) error { return a.Complete(ctx, effect(t)) },
		"fail": func(a *statemachine.Attempt) error {
			return a.Fail(ctx, errors.New("late"), statemachine.FailOptions{})
		},
		"release": func(a *statemachine.Attempt) error { return a.Release(ctx) },
		"renew":   func(a *statemachine.Attempt) error { return a.Renew(ctx) },
	}
	insertOrders(t, pool, 1, len(late))
	id := 0
	for name, write := range late { // each on a row of its own: a refusal is remembered
		id++
		key := statemachine.Key(id)
		dead := claim(t, a, key)
		expire(t, pool, dead)
		next := claim(t, b, key)
		if next.Number() != 2 || next.Token() <= dead.Token() {
			t.Fatalf("attempt %d, token %d after %d", next.Number(), next.Token(), dead.Token())
		}
		if err := write(dead); !errors.Is(err, pgcoord.ErrLost) || !strings.Contains(err.Error(), `"B"`) {
			t.Errorf("%s of the dead worker: %v", name, err)
		}
		if got, s := outcomes(t, pool, key), state(t, pool, key); got != "1 lease expired, 2 open" || s != "PROCESSING" {
			t.Errorf("after the late %s: %s, row %s", name, got, s)
		}
		if err := next.Complete(ctx, nil); err != nil {
			t.Errorf("after the late %s: %v", name, err)
		}
	}
}

// effect is a guarded function that must not run.
func effect(t testing.TB) func(pgx.Tx) error {
	return func(pgx.Tx) error {
		t.Error("the work of a lost claim ran")
		return nil
	}
}

// A record that has ended, or a row that went on under another token, is refused
// by itself, whatever the other says.
func TestRowAndRecordAreBothCompared(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 3)
	c := newCoordinator(t, pool, m)
	x, y := claim(t, c, "1"), claim(t, c, "2")
	for _, edge := range [][2]statemachine.State{{"PROCESSING", "PENDING"}, {"PENDING", "PROCESSING"}} {
		if _, err := m.Transition(ctx, pool, "1", edge[0], edge[1], statemachine.TransitionOptions{RaiseToken: true}); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, pool, "UPDATE pgcoord.attempts SET ended_at = clock_timestamp(), outcome = 'superseded' WHERE key = '2'")
	for _, lost := range []*statemachine.Attempt{x, y} {
		if err := lost.BeginFunc(ctx, effect(t)); !errors.Is(err, pgcoord.ErrLost) {
			t.Errorf("row %s: %v", lost.Key(), err)
		}
	}

	strict := newCoordinator(t, pool, m, func(o *statemachine.Options) { o.Step.NoAdoption = true })
	z := claim(t, strict, "3")
	expire(t, pool, z)
	if done, err := c.Reap(ctx); err != nil || len(done.Moved) != 1 {
		t.Fatalf("reap: %+v, %v", done, err)
	}
	if err := z.Renew(ctx); !errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("renewal of what was taken back: %v", err)
	}
}

// Case M5: a retry whose reply was lost finds its own claim.
func TestClaimIsIdempotent(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 1)
	a, b := newCoordinator(t, pool, m), newCoordinator(t, pool, m)
	named := pgcoord.WithGrantID(ctx, "request 7")
	x, err := a.TryClaim(named, "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []func(context.Context, string) (*statemachine.Attempt, error){a.TryClaim, b.TryClaim, b.Claim} {
		y, err := again(named, "1")
		if err != nil || y.Token() != x.Token() || y.Number() != 1 {
			t.Fatalf("again: %+v, %v", y, err)
		}
	}
	if n := scan[int](t, pool, "SELECT count(*) FROM pgcoord.attempts"); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

// Attempts are used up, failures rest, and results and errors are kept.
func TestFail(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 3)
	c := newCoordinator(t, pool, m, func(o *statemachine.Options) { o.Step.MaxAttempts, o.Step.Backoff = 2, time.Hour })
	x := claim(t, c, "1")
	if err := x.Fail(ctx, errors.New("no \x00 answer"), statemachine.FailOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryClaim(ctx, "1"); !errors.Is(err, pgcoord.ErrHeld) {
		t.Errorf("a row that rests: %v", err)
	}
	if batch, err := c.ClaimBatch(ctx, 10); err != nil || len(batch) != 2 {
		t.Errorf("batch beside a row that rests: %v, %v", batch, err)
	}
	exec(t, pool, "UPDATE pgcoord.attempts SET retry_at = clock_timestamp()")
	x = claim(t, c, "1")
	if err := x.Fail(ctx, errors.New("again"), statemachine.FailOptions{}); err != nil {
		t.Fatal(err)
	}
	if s, got := state(t, pool, "1"), outcomes(t, pool, "1"); s != "FAILED" || got != "1 retry, 2 failed" {
		t.Errorf("row %s, attempts %s", s, got)
	}
	if text := scan[string](t, pool, "SELECT error FROM pgcoord.attempts WHERE key = '1' AND attempt = 1"); text != "no  answer" {
		t.Errorf("error %q", text)
	}
}

// Case L3: an open guard holds off a plain CAS by hand, and an uncommitted
// foreign-key child does not hide a ready row.
func TestGuardAgainstPlainCAS(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	m := newOrders(t, pool)
	insertOrders(t, pool, 1, 2)
	exec(t, pool, "CREATE TABLE items (order_id bigint REFERENCES orders)")
	c := newCoordinator(t, pool, m)
	child, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Rollback(ctx)
	if _, err := child.Exec(ctx, "INSERT INTO items VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	x := claim(t, c, "1")
	by := make(chan int64, 1)
	err = x.BeginFunc(ctx, func(tx pgx.Tx) error {
		go func() {
			tag, err := pool.Exec(ctx, "UPDATE orders SET status = 'PENDING' WHERE id = 1 AND status = 'PROCESSING'")
			if err != nil {
				t.Error(err)
			}
			by <- tag.RowsAffected()
		}()
		pgtest.Eventually(t, 5*time.Second, "the plain CAS waits", func() bool {
			return scan[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := <-by; n != 1 {
		t.Errorf("the plain CAS moved %d rows after the guard", n)
	}
	if err := x.Complete(ctx, nil); !errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("complete after somebody moved the row: %v", err)
	}
}
