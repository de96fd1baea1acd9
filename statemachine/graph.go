package statemachine

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	// plainState is a state that Mermaid takes as it is, but for its own words.
	plainState   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*$`)
	mermaidWords = []string{
		"acctitle", "accdescr", "as", "choice", "class", "classdef", "click", "constructor", "default", "direction", "end", "fork",
		"hide", "href", "join", "left", "note", "right", "root", "root_end", "root_start", "scale", "state", "statediagram", "style",
	}
)

// Mermaid returns the graph as a Mermaid state diagram, the same for equal
// definitions. States that Mermaid could misread stand in it under a short name,
// with their own as the label.
func (m *Machine) Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	ids := m.ids()
	for _, s := range m.states {
		if ids[s] != string(s) {
			fmt.Fprintf(&b, "    state \"%s\" as %s\n", mermaidText(string(s)), ids[s])
		}
	}
	for _, s := range m.initial {
		fmt.Fprintf(&b, "    [*] --> %s\n", ids[s])
	}
	for _, from := range m.states {
		for _, to := range m.edges[from] {
			fmt.Fprintf(&b, "    %s --> %s\n", ids[from], ids[to])
		}
	}
	for _, s := range m.states {
		if m.final(s) {
			fmt.Fprintf(&b, "    %s --> [*]\n", ids[s])
		}
	}
	return b.String()
}

// ids returns what each state is called in a diagram: its own name, or one that
// is no state's.
func (m *Machine) ids() map[State]string {
	ids := map[State]string{}
	for i, s := range m.states {
		ids[s] = string(s)
		if !plainState.MatchString(string(s)) || slices.Contains(mermaidWords, strings.ToLower(string(s))) {
			ids[s] = m.unused(fmt.Sprintf("s%d", i+1))
		}
	}
	return ids
}

// unused returns a name like name that no state has.
func (m *Machine) unused(name string) string {
	for m.has(State(name)) {
		name += "x"
	}
	return name
}

// mermaidText writes text as a label: what is not a letter, digit or space as its
// number.
func mermaidText(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" _-.,", r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// DOT returns the graph in the language of Graphviz, the same for equal
// definitions. Final states have a double border.
func (m *Machine) DOT() string {
	var b strings.Builder
	start := m.unused("start")
	fmt.Fprintf(&b, "digraph %s {\n    rankdir=LR;\n    node [shape=box, style=rounded];\n    %s [shape=point];\n", dotText(m.name), start)
	ids := m.ids()
	for _, s := range m.states {
		fmt.Fprintf(&b, "    %s [label=%s", dotText(ids[s]), dotText(string(s)))
		if m.final(s) {
			b.WriteString(", peripheries=2")
		}
		b.WriteString("];\n")
	}
	for _, s := range m.initial {
		fmt.Fprintf(&b, "    %s -> %s;\n", start, dotText(ids[s]))
	}
	for _, from := range m.states {
		for _, to := range m.edges[from] {
			fmt.Fprintf(&b, "    %s -> %s;\n", dotText(ids[from]), dotText(ids[to]))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// dotText writes text as a label that shows it: Graphviz reads backslashes and
// entities in labels.
func dotText(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"':
			b.WriteString(`\"`)
		case r == '\\':
			b.WriteString(`\\`)
		case r == '&':
			b.WriteString("&amp;")
		case r == '\n':
			b.WriteString(`\n`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
