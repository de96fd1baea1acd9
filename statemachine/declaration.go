package statemachine

import (
	"errors"
	"fmt"
	"slices"
)

// states returns all states in the order of their first mention.
func (d Definition) states() []State {
	var all []State
	add := func(s State) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for _, s := range d.Initial {
		add(s)
	}
	for _, t := range d.Transitions {
		add(t.From)
		add(t.To)
	}
	return all
}

// checkGraph checks states and edges.
func (d Definition) checkGraph() error {
	faults := d.checkTransitions()
	if len(d.Initial) == 0 {
		faults = append(faults, errors.New("Definition.Initial is empty; name the states in which rows are born"))
	}
	faults = append(faults, d.checkNamed("Definition.Initial", d.Initial)...)
	faults = append(faults, d.checkNamed("Definition.Final", d.Final)...)
	faults = append(faults, d.checkFinal()...)
	if len(d.Initial) > 0 {
		faults = append(faults, d.checkReachable()...)
	}
	return errors.Join(faults...)
}

func (d Definition) checkTransitions() (faults []error) {
	if len(d.Transitions) == 0 {
		faults = append(faults, errors.New("Definition.Transitions is empty"))
	}
	seen := map[Transition]int{}
	for i, t := range d.Transitions {
		field := fmt.Sprintf("Definition.Transitions[%d]", i)
		for _, end := range []struct {
			field string
			state State
		}{{".From", t.From}, {".To", t.To}} {
			if err := checkText(string(end.state), maxName); err != nil {
				faults = append(faults, prefixed(field+end.field, err))
			}
		}
		if first, twice := seen[t]; twice {
			faults = append(faults, fmt.Errorf("%s: %s to %s is declared at [%d] already", field, shown(string(t.From)), shown(string(t.To)), first))
			continue
		}
		seen[t] = i
		if t.From == t.To {
			faults = append(faults, fmt.Errorf("%s goes from %s to itself; a transition changes the state", field, shown(string(t.From))))
		}
	}
	return faults
}

// checkNamed checks states that a field names besides the edges.
func (d Definition) checkNamed(field string, states []State) (faults []error) {
	for i, s := range states {
		field := fmt.Sprintf("%s[%d]", field, i)
		if err := checkText(string(s), maxName); err != nil {
			faults = append(faults, prefixed(field, err))
			continue
		}
		if slices.Index(states, s) < i {
			faults = append(faults, fmt.Errorf("%s: %s is named twice", field, shown(string(s))))
		}
		if !slices.ContainsFunc(d.Transitions, func(t Transition) bool { return t.From == s || t.To == s }) {
			faults = append(faults, fmt.Errorf("%s: no transition has the state %s", field, shown(string(s))))
		}
	}
	return faults
}

func (d Definition) checkFinal() (faults []error) {
	if len(d.Final) == 0 {
		return nil
	}
	leaves := map[State]bool{}
	for i, t := range d.Transitions {
		leaves[t.From] = true
		if slices.Contains(d.Final, t.From) {
			faults = append(faults, fmt.Errorf("Definition.Transitions[%d] leaves %s, which Definition.Final names", i, shown(string(t.From))))
		}
	}
	for _, s := range d.states() {
		if !leaves[s] && !slices.Contains(d.Final, s) {
			faults = append(faults, fmt.Errorf("Definition.Transitions: none leaves %s, which Definition.Final does not name", shown(string(s))))
		}
	}
	return faults
}

func (d Definition) checkReachable() (faults []error) {
	reached := map[State]bool{}
	next := slices.Clone(d.Initial)
	for len(next) > 0 {
		s := next[0]
		next = next[1:]
		if reached[s] {
			continue
		}
		reached[s] = true
		for _, t := range d.Transitions {
			if t.From == s {
				next = append(next, t.To)
			}
		}
	}
	for _, s := range d.states() {
		if !reached[s] {
			faults = append(faults, fmt.Errorf("Definition.Transitions: no path leads from an initial state to %s", shown(string(s))))
		}
	}
	return faults
}
