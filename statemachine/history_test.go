package statemachine_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/statemachine"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	born(t, pool, 10, "PENDING")
	metadata := map[string]string{"by": `"O'Neil" \`, "why": "naïve"}
	steps := []struct {
		from, to statemachine.State
		o        statemachine.TransitionOptions
	}{
		{"PENDING", "PROCESSING", statemachine.TransitionOptions{Record: true, RaiseToken: true}},
		{"PROCESSING", "PENDING", statemachine.TransitionOptions{Metadata: metadata}},
		{"PENDING", "PROCESSING", plain},
		{"PROCESSING", "DONE", statemachine.TransitionOptions{Record: true}},
	}
	var token int64
	var tokens []int64
	for _, s := range steps {
		moved, err := m.Transition(ctx, pool, "1", s.from, s.to, s.o)
		if err != nil || !maps.Equal(moved.Metadata, s.o.Metadata) {
			t.Fatalf("%+v, %v", moved, err)
		}
		tokens = append(tokens, moved.Token)
		token = moved.Token
	}
	_, err := m.Transition(ctx, pool, "1", "PENDING", "PROCESSING", statemachine.TransitionOptions{Record: true})
	refused(t, err, pgcoord.ErrConflict, "DONE")
	if _, err := m.Transition(ctx, pool, "10", "PENDING", "PROCESSING", statemachine.TransitionOptions{Record: true}); err != nil {
		t.Fatal(err)
	}
	events, err := m.History(ctx, pool, "1")
	if err != nil || len(events) != 3 {
		t.Fatalf("%+v, %v", events, err)
	}
	for i, step := range []int{0, 1, 3} {
		e, s := events[i], steps[step]
		if e.From != s.from || e.To != s.to || e.Token != tokens[step] || !maps.Equal(e.Metadata, s.o.Metadata) {
			t.Errorf("event %d: %+v", i, e)
		}
		if i > 0 && e.At.Before(events[i-1].At) {
			t.Errorf("event %d is at %v, before the one before", i, e.At)
		}
	}
	if tokens[0] <= 0 || token != tokens[0] {
		t.Errorf("tokens %v: one was raised, and none besides", tokens)
	}
}

// TestHistoryOfTransaction: what a transaction has recorded is seen in it, and by
// others once it has committed.
func TestHistoryOfTransaction(t *testing.T) {
	t.Parallel()
	ctx, pool := within(t, 30*time.Second), newPool(t)
	m := newOrders(t, pool)
	born(t, pool, 1, "PENDING")
	tx := begin(t, pool, pgx.TxOptions{})
	if _, err := m.Transition(ctx, tx, "1", "PENDING", "PROCESSING", statemachine.TransitionOptions{Record: true}); err != nil {
		t.Fatal(err)
	}
	for db, want := range map[statemachine.DB]int{tx: 1, pool: 0} {
		if events, err := m.History(ctx, db, "1"); err != nil || len(events) != want {
			t.Errorf("in a %T: %+v, %v", db, events, err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if events, err := m.History(ctx, pool, "1"); err != nil || len(events) != 1 {
		t.Errorf("after the commit: %+v, %v", events, err)
	}
	if _, err := m.History(ctx, pool, "01"); !errors.Is(err, pgcoord.ErrInvalidKey) {
		t.Errorf("a key that is not canonical: %v", err)
	}
	if events, err := m.History(ctx, pool, "7"); err != nil || len(events) != 0 {
		t.Errorf("a key without a row: %+v, %v", events, err)
	}
	if _, err := m.History(ctx, nil, "7"); err == nil {
		t.Error("without a DB there is no error")
	}
}
