package conformance

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// The model of a fenced lock: of what happened to one key, there must be an order
// in which each call takes effect at one moment between its start and its end,
// such that
//
//   - each grant has a greater token than all before. It ends the claim before it,
//     because a lease may end at any time;
//   - what a claim does succeeds only while no later grant has been and it has not
//     ended, and it finds the counter as the call before has left it;
//   - a claim is refused only when it is over, and stays refused;
//   - a call with an unknown outcome has taken effect or has not.

type kind int

const (
	grant    kind = iota
	guarded       // BeginFunc that counts
	complete      // Complete that counts
	release
	read // of the counter, by somebody else
)

func (k kind) String() string {
	return [...]string{"grant", "guarded", "complete", "release", "read"}[k]
}

// call is the input of an operation.
type call struct {
	Kind  kind
	Key   string
	Token int64 // of the claim; 0 for read
}

type verdict int

const (
	succeeded verdict = iota
	lost              // ErrLost
	unknown
	nothing // failed for sure: not part of a history
)

func (v verdict) String() string { return [...]string{"ok", "lost", "unknown", "nothing"}[v] }

// result is the output of an operation.
type result struct {
	Verdict verdict
	Value   int64 // of the counter as it was found
}

// fenced is the state of one key.
type fenced struct {
	token int64 // of the newest grant
	over  bool  // that claim has ended
	value int64
}

func fencedLock() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Partition: partition,
		Init:      func() []interface{} { return []interface{}{fenced{}} },
		Step: func(state, input, output interface{}) []interface{} {
			next := state.(fenced).after(input.(call), output.(result))
			states := make([]interface{}, len(next))
			for i, s := range next {
				states[i] = s
			}
			return states
		},
		DescribeOperation: func(input, output interface{}) string {
			in, out := input.(call), output.(result)
			return fmt.Sprintf("%v %d: %v %d", in.Kind, in.Token, out.Verdict, out.Value)
		},
	}
	return model.ToModel()
}

func partition(history []porcupine.Operation) [][]porcupine.Operation {
	byKey := map[string][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(call).Key
		byKey[key] = append(byKey[key], op)
	}
	var parts [][]porcupine.Operation
	for _, part := range byKey {
		parts = append(parts, part)
	}
	return parts
}

// after returns the states that may follow when c ends with r; none: it cannot.
func (s fenced) after(c call, r result) []fenced {
	switch {
	case r.Verdict == unknown:
		done := s.after(c, result{Verdict: succeeded, Value: s.value})
		return append(done, s)
	case c.Kind == read:
		return s.when(r.Value == s.value, s)
	case c.Kind == grant:
		return s.when(c.Token > s.token, fenced{token: c.Token, value: s.value})
	case r.Verdict == lost:
		if c.Token == s.token { // its lease has ended, and it has been told
			return []fenced{{token: s.token, over: true, value: s.value}}
		}
		return []fenced{s}
	}
	current := c.Token == s.token && !s.over
	next := s
	next.over = c.Kind != guarded
	if c.Kind != release {
		current = current && r.Value == s.value
		next.value++
	}
	return s.when(current, next)
}

func (s fenced) when(ok bool, next fenced) []fenced {
	if !ok {
		return nil
	}
	return []fenced{next}
}
