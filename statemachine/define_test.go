package statemachine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pgcoord/pgcoord/statemachine"
)

func TestDefineTakesDefaults(t *testing.T) {
	t.Parallel()
	m := define(t, orders())
	if m.Name() != "orders.status" {
		t.Errorf("the name is %q", m.Name())
	}
	want := []statemachine.State{"PENDING", "PROCESSING", "DONE", "FAILED"}
	if got := m.States(); !slices.Equal(got, want) {
		t.Errorf("states %q, want %q", got, want)
	}
	if !m.Allows("PROCESSING", "PENDING") || m.Allows("PENDING", "DONE") || m.Allows("DONE", "PENDING") || m.Allows("no", "such") {
		t.Error("Allows does not tell the declared edges")
	}
}

func TestDefineNamesTheMachineAfterTableAndColumn(t *testing.T) {
	t.Parallel()
	d := orders()
	d.Table, d.StateColumn = `shop."Order ""Items"""`, "State of it"
	if got, want := define(t, d).Name(), `shop."Order ""Items"""."State of it"`; got != want {
		t.Errorf("the name is %q, want %q", got, want)
	}
	d.Name = "orders"
	if got := define(t, d).Name(); got != "orders" {
		t.Errorf("the name is %q, want that of the definition", got)
	}
}

// A machine keeps nothing of what the caller may change later.
func TestDefineCopies(t *testing.T) {
	t.Parallel()
	d := orders()
	d.Key = []string{"id"}
	m := define(t, d)
	before := m.Mermaid()
	d.Initial[0], d.Key[0] = "DONE", "other"
	d.Transitions[0] = statemachine.Transition{From: "DONE", To: "PENDING"}
	m.States()[0] = "changed"
	if after := m.Mermaid(); after != before {
		t.Errorf("the machine changed to\n%s", after)
	}
}

type change = func(*statemachine.Definition)

func edge(from, to statemachine.State) change {
	return func(d *statemachine.Definition) {
		d.Transitions = append(d.Transitions, statemachine.Transition{From: from, To: to})
	}
}

func table(name string) change { return func(d *statemachine.Definition) { d.Table = name } }

// long is one byte longer than PostgreSQL keeps: two such names can be one.
var long = strings.Repeat("n", 64)

func TestDefineRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change change
		words  []string
	}{
		"no table":              {table(""), []string{"Definition.Table is empty"}},
		"injection":             {table(`a"; drop table x; --`), []string{"Definition.Table", `a\"; drop table x; --`, "plain lower-case", "double quotes"}},
		"quoted, then more":     {table(`"a"; drop table x; --`), []string{"Definition.Table", "a dot must follow"}},
		"NUL":                   {table("loc\x00ks"), []string{"Definition.Table", `loc\x00ks`}},
		"NUL in quotes":         {table("\"loc\x00ks\""), []string{"Definition.Table", "NUL"}},
		"not UTF-8":             {table("\"\xff\""), []string{"Definition.Table", "UTF-8"}},
		"64 bytes":              {table(long + "_1"), []string{"Definition.Table", "66 bytes", "63"}},
		"64 bytes as schema":    {table(long + ".t"), []string{"Definition.Table", "part 1", "64 bytes"}},
		"64 bytes in quotes":    {table(`"` + strings.Repeat("é", 32) + `"`), []string{"Definition.Table", "64 bytes"}},
		"three parts":           {table("db.shop.orders"), []string{"Definition.Table", "3 parts", "schema.table"}},
		"empty part":            {table("shop."), []string{"Definition.Table", "part 2", "empty"}},
		"empty first part":      {table(".orders"), []string{"Definition.Table", "part 1", "empty"}},
		"empty quotes":          {table(`""`), []string{"Definition.Table", "empty"}},
		"upper case":            {table("Orders"), []string{"Definition.Table", "Orders", "lower-case"}},
		"unclosed quotes":       {table(`shop."orders`), []string{"Definition.Table", "not closed"}},
		"unclosed double quote": {table(`"orders""`), []string{"Definition.Table", "not closed"}},
		"space":                 {table("orders "), []string{"Definition.Table", "lower-case"}},

		"empty key column":    {func(d *statemachine.Definition) { d.Key = []string{"a", ""} }, []string{"Definition.Key[1]", "empty"}},
		"long key column":     {func(d *statemachine.Definition) { d.Key = []string{long} }, []string{"Definition.Key[0]", "64 bytes"}},
		"twice in the key":    {func(d *statemachine.Definition) { d.Key = []string{"a", "a"} }, []string{"Definition.Key[1]", `"a"`, "Definition.Key[0] as well"}},
		"state is key":        {func(d *statemachine.Definition) { d.StateColumn = "id" }, []string{"Definition.StateColumn", `"id"`, "Definition.Key[0]"}},
		"token is state":      {func(d *statemachine.Definition) { d.TokenColumn = "status" }, []string{"Definition.TokenColumn", "Definition.StateColumn"}},
		"NUL in column":       {func(d *statemachine.Definition) { d.StateColumn = "st\x00" }, []string{"Definition.StateColumn", "NUL"}},
		"token not UTF-8":     {func(d *statemachine.Definition) { d.TokenColumn = "\xff" }, []string{"Definition.TokenColumn", "UTF-8"}},
		"too many in the key": {func(d *statemachine.Definition) { d.Key = numbered(33) }, []string{"Definition.Key", "33 columns"}},

		"long name": {func(d *statemachine.Definition) { d.Name = strings.Repeat("n", 129) }, []string{"Definition.Name", "129 bytes"}},
		"NUL name":  {func(d *statemachine.Definition) { d.Name = "a\x00" }, []string{"Definition.Name", "NUL"}},
		"long name by default": {func(d *statemachine.Definition) {
			d.Table, d.StateColumn = long[:63]+"."+long[:63], long[:10]
		}, []string{"Definition.Name must be given", "138 bytes"}},

		"no transitions": {func(d *statemachine.Definition) { d.Transitions = nil }, []string{"Definition.Transitions is empty"}},
		"no initial":     {func(d *statemachine.Definition) { d.Initial = nil }, []string{"Definition.Initial is empty"}},
		"empty state":    {edge("PENDING", ""), []string{"Definition.Transitions[4].To", "empty"}},
		"long state":     {edge(statemachine.State(strings.Repeat("s", 129)), "DONE"), []string{"Definition.Transitions[4].From", "129 bytes"}},
		"NUL state":      {edge("PENDING", "a\x00"), []string{"Definition.Transitions[4].To", "NUL"}},
		"self edge":      {edge("PENDING", "PENDING"), []string{"Definition.Transitions[4]", `"PENDING" to itself`}},
		"duplicate edge": {edge("PROCESSING", "DONE"), []string{"Definition.Transitions[4]", `"PROCESSING" to "DONE"`, "[1] already"}},
		"unreachable":    {edge("LOST", "PENDING"), []string{"no path", `"LOST"`}},
		"unreachable loop": {func(d *statemachine.Definition) {
			edge("A", "B")(d)
			edge("B", "A")(d)
		}, []string{`to "A"`, `to "B"`}},
		"unknown initial": {func(d *statemachine.Definition) { d.Initial = append(d.Initial, "NEW") }, []string{"Definition.Initial[1]", `"NEW"`}},
		"initial twice":   {func(d *statemachine.Definition) { d.Initial = append(d.Initial, "PENDING") }, []string{"Definition.Initial[1]", "twice"}},
		"unknown final":   {func(d *statemachine.Definition) { d.Final = []statemachine.State{"DONE", "FAILED", "GONE"} }, []string{"Definition.Final[2]", `"GONE"`}},
		"edge out of final": {func(d *statemachine.Definition) {
			d.Final = []statemachine.State{"DONE", "FAILED"}
			edge("DONE", "PENDING")(d)
		}, []string{"Definition.Transitions[4] leaves \"DONE\""}},
		"final not named": {func(d *statemachine.Definition) { d.Final = []statemachine.State{"DONE"} }, []string{`none leaves "FAILED"`}},
		"all at once": {func(d *statemachine.Definition) {
			*d = statemachine.Definition{Table: "A", Key: []string{"k", "k"}, Name: "\x00", Transitions: []statemachine.Transition{{From: "a", To: "a"}}}
		}, []string{"Definition.Table", "Definition.Key[1]", "Definition.Name", "Definition.Transitions[0]", "Definition.Initial"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := orders()
			c.change(&d)
			m, err := statemachine.Define(d)
			if err == nil || m != nil {
				t.Fatalf("got %v, %v; want it refused", m, err)
			}
			for _, word := range append(c.words, "statemachine: define: ") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v\ndoes not say %q", err, word)
				}
			}
		})
	}
}

func TestDefineTakesTheLongest(t *testing.T) {
	t.Parallel()
	d := orders()
	d.Table, d.Name = `"`+strings.Repeat("é", 31)+`n"."`+long[:63]+`"`, strings.Repeat("n", 128)
	d.Key, d.StateColumn, d.TokenColumn = numbered(32), long[:63], `odd "column"; --`
	edge("PENDING", statemachine.State(strings.Repeat("s", 128)))(&d)
	d.Final = []statemachine.State{"DONE", "FAILED", statemachine.State(strings.Repeat("s", 128))}
	define(t, d)
}

// An error must not repeat a megabyte.
func TestDefineShortensHugeValues(t *testing.T) {
	t.Parallel()
	d := orders()
	huge := strings.Repeat("x", 1<<20)
	d.Table, d.StateColumn, d.Initial[0] = huge, huge, statemachine.State(huge)
	_, err := statemachine.Define(d)
	if err == nil || len(err.Error()) > 4096 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strings.Repeat("k", i+1)
	}
	return names
}
