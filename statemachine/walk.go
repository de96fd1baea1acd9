package statemachine

import "slices"

// Paths returns declared paths, for tests that walk them on a scratch database.
// Each starts in an initial state. The first ones go through every edge, around
// loops too, and on to a final state where one can be reached; there are at most as
// many as edges, and they are returned whatever limit is. After them come others
// that take no edge twice and end where no edge is left, until there are limit.
func (m *Machine) Paths(limit int) [][]State {
	w := &walk{m: m, limit: limit, known: map[string]bool{}, used: map[Transition]bool{}}
	w.cover()
	for _, s := range m.initial {
		w.extend([]State{s})
	}
	return w.paths
}

type walk struct {
	m     *Machine
	limit int
	paths [][]State
	known map[string]bool     // the paths, to tell those found again
	used  map[Transition]bool // by the path under way
}

func (w *walk) add(path []State) {
	id := ""
	for _, s := range path {
		id += string(s) + "\x00" // no state contains it
	}
	if !w.known[id] {
		w.known[id] = true
		w.paths = append(w.paths, slices.Clone(path))
	}
}

// cover finds for each edge that no path has yet the shortest one through it.
func (w *walk) cover() {
	covered := map[Transition]bool{}
	to, onward := w.m.shortest()
	for _, from := range w.m.states {
		for _, next := range w.m.edges[from] {
			if covered[Transition{from, next}] {
				continue
			}
			path := slices.Concat(to[from], []State{next}, onward[next])
			for i := range path[1:] {
				covered[Transition{path[i], path[i+1]}] = true
			}
			w.add(path)
		}
	}
}

// shortest returns for each state the shortest path from an initial state to it,
// and what follows it on the shortest to a final state, if there is one.
func (m *Machine) shortest() (to, onward map[State][]State) {
	to, onward = map[State][]State{}, map[State][]State{}
	for _, s := range m.initial {
		to[s] = []State{s}
	}
	for queue := slices.Clone(m.initial); len(queue) > 0; queue = queue[1:] {
		for _, next := range m.edges[queue[0]] {
			if to[next] == nil {
				to[next] = append(slices.Clone(to[queue[0]]), next)
				queue = append(queue, next)
			}
		}
	}
	var queue []State
	for _, s := range m.states {
		if m.final(s) {
			onward[s] = []State{}
			queue = append(queue, s)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, from := range m.states {
			if onward[from] == nil && m.Allows(from, queue[0]) {
				onward[from] = append([]State{queue[0]}, onward[queue[0]]...)
				queue = append(queue, from)
			}
		}
	}
	return to, onward
}

// extend adds the paths that begin with path and take no edge twice.
func (w *walk) extend(path []State) {
	last, whole := path[len(path)-1], true
	for _, next := range w.m.edges[last] {
		edge := Transition{last, next}
		if w.used[edge] {
			continue
		}
		whole = false
		if len(w.paths) >= w.limit {
			return
		}
		w.used[edge] = true
		w.extend(append(path, next))
		w.used[edge] = false
	}
	if whole && len(w.paths) < w.limit {
		w.add(path)
	}
}
