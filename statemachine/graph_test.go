package statemachine_test

import (
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/pgcoord/pgcoord/statemachine"
)

func ExampleMachine_Mermaid() {
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
	fmt.Print(orders.Mermaid())
	// Output:
	// stateDiagram-v2
	//     [*] --> PENDING
	//     PENDING --> PROCESSING
	//     PROCESSING --> DONE
	//     PROCESSING --> FAILED
	//     PROCESSING --> PENDING
	//     DONE --> [*]
	//     FAILED --> [*]
}

func TestDOT(t *testing.T) {
	t.Parallel()
	want := `digraph "orders.status" {
    rankdir=LR;
    node [shape=box, style=rounded];
    start [shape=point];
    "PENDING" [label="PENDING"];
    "PROCESSING" [label="PROCESSING"];
    "DONE" [label="DONE", peripheries=2];
    "FAILED" [label="FAILED", peripheries=2];
    start -> "PENDING";
    "PENDING" -> "PROCESSING";
    "PROCESSING" -> "DONE";
    "PROCESSING" -> "FAILED";
    "PROCESSING" -> "PENDING";
}
`
	if got := define(t, orders()).DOT(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// hostileStates are names that a diagram or SQL could take for something else.
func hostileStates() statemachine.Definition {
	d := statemachine.Definition{Table: `"a""b\c"`, Initial: []statemachine.State{"start", "s3"}}
	from := statemachine.State("start")
	for _, to := range []statemachine.State{
		"in progress", "a\"b\\N'; drop table x; --\n}", "[*]", "end", "$body$ %s :x", "日本 café", "\u202e&lt;#35;", "Root", "__proto__", "--> X",
	} {
		d.Transitions = append(d.Transitions, statemachine.Transition{From: from, To: to})
		from = to
	}
	d.Transitions = append(d.Transitions, statemachine.Transition{From: "s3", To: from})
	return d
}

func TestMermaidWritesAnyState(t *testing.T) {
	t.Parallel()
	want := `stateDiagram-v2
    state "in progress" as s3x
    state "a#34;b#92;N#39;#59; drop table x#59; --#10;#125;" as s4
    state "#91;#42;#93;" as s5
    state "end" as s6
    state "#36;body#36; #37;s #58;x" as s7
    state "日本 café" as s8
    state "#8238;#38;lt#59;#35;35#59;" as s9
    state "Root" as s10
    state "__proto__" as s11
    state "--#62; X" as s12
    [*] --> start
    [*] --> s3
    start --> s3x
    s3 --> s12
    s3x --> s4
    s4 --> s5
    s5 --> s6
    s6 --> s7
    s7 --> s8
    s8 --> s9
    s9 --> s10
    s10 --> s11
    s11 --> s12
    s12 --> [*]
`
	if got := define(t, hostileStates()).Mermaid(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDOTWritesAnyState(t *testing.T) {
	t.Parallel()
	got := define(t, hostileStates()).DOT()
	for _, line := range []string{
		`digraph "\"a\"\"b\\c\".status" {`,
		`    startx [shape=point];`,
		`    "start" [label="start"];`,
		`    "s3" [label="s3"];`,
		`    "s3x" [label="in progress"];`,
		`    "s4" [label="a\"b\\N'; drop table x; --\n}"];`,
		`    "s9" [label="\\u202e&amp;lt;#35;"];`,
		`    "s12" [label="--> X", peripheries=2];`,
		`    startx -> "start";`,
		`    "s3" -> "s12";`,
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("%s\nhas no line %s", got, line)
		}
	}
}

// The picture in a document must not change by itself.
func TestDiagramsAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	first := define(t, hostileStates())
	for range 20 {
		m := define(t, hostileStates())
		if m.Mermaid() != first.Mermaid() || m.DOT() != first.DOT() {
			t.Fatal("equal definitions have different diagrams")
		}
	}
}
