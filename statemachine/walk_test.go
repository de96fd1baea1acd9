package statemachine_test

import (
	"fmt"
	"log"
	"slices"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord/statemachine"
)

func TestPathsOfASmallMachine(t *testing.T) {
	t.Parallel()
	m := define(t, orders())
	want := []string{
		"[PENDING PROCESSING DONE]",
		"[PENDING PROCESSING FAILED]",
		"[PENDING PROCESSING PENDING PROCESSING DONE]",
		"[PENDING PROCESSING PENDING]",
	}
	for limit, most := range map[int]int{-1: 3, 0: 3, 3: 3, 4: 4, 1000: 4} {
		var got []string
		for _, path := range m.Paths(limit) {
			got = append(got, fmt.Sprint(path))
		}
		if !slices.Equal(got, want[:most]) {
			t.Errorf("up to %d: %q, want %q", limit, got, want[:most])
		}
	}
}

// dense has every edge between n states, and one final state behind them.
func dense(n int) statemachine.Definition {
	d := statemachine.Definition{Table: "dense", Initial: []statemachine.State{"S0", "S1"}}
	state := func(i int) statemachine.State { return statemachine.State(fmt.Sprintf("S%d", i)) }
	for i := range n {
		for j := range n {
			if i != j {
				d.Transitions = append(d.Transitions, statemachine.Transition{From: state(i), To: state(j)})
			}
		}
	}
	d.Transitions = append(d.Transitions, statemachine.Transition{From: state(n - 1), To: "END"})
	return d
}

func TestPathsGoThroughEveryEdge(t *testing.T) {
	t.Parallel()
	cycle := statemachine.Definition{
		Table: "cycle", Initial: []statemachine.State{"A"},
		Transitions: []statemachine.Transition{{From: "A", To: "B"}, {From: "B", To: "C"}, {From: "C", To: "A"}},
	}
	for _, d := range []statemachine.Definition{orders(), hostileStates(), dense(12), cycle} {
		m := define(t, d)
		for _, limit := range []int{0, 5000} {
			paths := m.Paths(limit)
			if len(paths) > max(len(d.Transitions), limit) {
				t.Errorf("%s: %d paths, limit %d", m.Name(), len(paths), limit)
			}
			gone, seen := map[statemachine.Transition]bool{}, map[string]bool{}
			for _, path := range paths {
				if id := fmt.Sprintf("%q", path); seen[id] {
					t.Errorf("%s: %s is there twice", m.Name(), id)
				} else {
					seen[id] = true
				}
				if !slices.Contains(d.Initial, path[0]) {
					t.Errorf("%s: %q does not start in an initial state", m.Name(), path)
				}
				for i := range path[1:] {
					gone[statemachine.Transition{From: path[i], To: path[i+1]}] = true
				}
			}
			for edge := range gone {
				if !m.Allows(edge.From, edge.To) {
					t.Errorf("%s: %q is not declared", m.Name(), edge)
				}
			}
			if len(gone) != len(d.Transitions) {
				t.Errorf("%s: %d edges of %d, limit %d", m.Name(), len(gone), len(d.Transitions), limit)
			}
		}
	}
}

func TestPathsOfADenseMachineEnd(t *testing.T) {
	t.Parallel()
	began := time.Now()
	if n := len(define(t, dense(20)).Paths(1000)); n != 1000 {
		t.Errorf("%d paths, want 1000", n)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

// What a test of a machine's user does: walk all of it on a scratch database.
func TestTransitionsWalkEveryPath(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, d := range []statemachine.Definition{orders(), hostileStates(), dense(5)} {
		m := define(t, d)
		create(t, pool, m, everything(m, "bigint"))
		moved := 0
		for id, path := range m.Paths(30) {
			key := statemachine.Key(id)
			exec(t, pool, "INSERT INTO "+d.Table+" (id, status) VALUES ($1, $2)", id, path[0])
			for i, to := range path[1:] {
				if _, err := m.Transition(within(t, 10*time.Second), pool, key, path[i], to, statemachine.TransitionOptions{Record: true}); err != nil {
					t.Fatalf("%s: %q: %v", m.Name(), path[:i+2], err)
				}
				moved++
			}
		}
		if got := scan[int](t, pool, "SELECT count(*)::int FROM pgcoord.transitions WHERE machine = $1", m.Name()); got != moved {
			t.Errorf("%s: %d transitions recorded of %d", m.Name(), got, moved)
		}
	}
}

func ExampleMachine_Paths() {
	orders, err := statemachine.Define(statemachine.Definition{
		Table:   "orders",
		Initial: []statemachine.State{"PENDING"},
		Transitions: []statemachine.Transition{
			{From: "PENDING", To: "PROCESSING"},
			{From: "PROCESSING", To: "DONE"},
			{From: "PROCESSING", To: "FAILED"},
			{From: "PROCESSING", To: "PENDING"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range orders.Paths(10) {
		fmt.Println(path)
	}
	// Output:
	// [PENDING PROCESSING DONE]
	// [PENDING PROCESSING FAILED]
	// [PENDING PROCESSING PENDING PROCESSING DONE]
	// [PENDING PROCESSING PENDING]
}
