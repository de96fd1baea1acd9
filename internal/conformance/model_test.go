package conformance

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// op is an operation on key "k" from time from to time to.
func op(kind kind, token int64, verdict verdict, value, from, to int64) porcupine.Operation {
	return porcupine.Operation{
		Input: call{kind, "k", token}, Call: from,
		Output: result{verdict, value}, Return: to,
	}
}

func TestModel(t *testing.T) {
	on := func(key string, o porcupine.Operation) porcupine.Operation {
		in := o.Input.(call)
		in.Key = key
		o.Input = in
		return o
	}
	tests := []struct {
		name    string
		legal   bool
		history []porcupine.Operation
	}{
		{"one claim", true, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(guarded, 1, succeeded, 0, 2, 3), op(guarded, 1, succeeded, 1, 4, 5),
			op(complete, 1, succeeded, 2, 6, 7), op(read, 0, succeeded, 3, 8, 9),
		}},
		{"the same token again", false, []porcupine.Operation{op(grant, 7, succeeded, 0, 0, 1), op(grant, 7, succeeded, 0, 2, 3)}},
		{"a token that goes back", false, []porcupine.Operation{
			op(grant, 7, succeeded, 0, 0, 1), op(release, 7, succeeded, 0, 2, 3), op(grant, 6, succeeded, 0, 4, 5),
		}},
		{"tokens of grants at once", true, []porcupine.Operation{op(grant, 7, succeeded, 0, 0, 9), op(grant, 6, succeeded, 0, 1, 8)}},
		{"tokens of keys are apart", true, []porcupine.Operation{
			op(grant, 7, succeeded, 0, 0, 1), on("other", op(grant, 6, succeeded, 0, 2, 3)),
		}},
		{"a write after the takeover", false, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(grant, 2, succeeded, 0, 2, 3), op(guarded, 1, succeeded, 0, 4, 5),
		}},
		{"a write beside the takeover", true, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(grant, 2, succeeded, 0, 2, 5), op(guarded, 1, succeeded, 0, 3, 6),
		}},
		{"a write that lost an update", false, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(guarded, 1, succeeded, 0, 2, 3),
			op(grant, 2, succeeded, 0, 4, 5), op(guarded, 2, succeeded, 0, 6, 7),
		}},
		{"a write between two of a newer claim", false, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(grant, 2, succeeded, 0, 2, 3), op(guarded, 2, succeeded, 0, 4, 5),
			op(guarded, 1, succeeded, 1, 4, 9), op(guarded, 2, succeeded, 2, 8, 9),
		}},
		{"a write after the release", false, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(release, 1, succeeded, 0, 2, 3), op(guarded, 1, succeeded, 0, 4, 5),
		}},
		{"a second completion", false, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(complete, 1, succeeded, 0, 2, 3), op(complete, 1, succeeded, 1, 4, 5),
		}},
		{"a release after the takeover", false, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(grant, 2, succeeded, 0, 2, 3), op(release, 1, succeeded, 0, 4, 5),
		}},
		{"a refusal that was none", false, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(guarded, 1, lost, 0, 2, 3), op(guarded, 1, succeeded, 0, 4, 5),
		}},
		{"a refusal after the takeover", true, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(grant, 2, succeeded, 0, 2, 3), op(guarded, 1, lost, 0, 4, 5),
			op(guarded, 2, succeeded, 0, 6, 7),
		}},
		{"an unknown write that was applied", true, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(guarded, 1, unknown, 0, 2, 99), op(guarded, 1, succeeded, 1, 4, 5),
		}},
		{"an unknown write that was not", true, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(guarded, 1, unknown, 0, 2, 99), op(guarded, 1, succeeded, 0, 4, 5),
		}},
		{"an unknown write applied twice", false, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(guarded, 1, unknown, 0, 2, 99), op(read, 0, succeeded, 2, 4, 5),
		}},
		{"an unknown write applied after the takeover", false, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(guarded, 1, unknown, 0, 2, 99), op(grant, 2, succeeded, 0, 4, 5),
			op(read, 0, succeeded, 0, 6, 7), op(read, 0, succeeded, 1, 8, 9),
		}},
		{"a write that somebody saw and then did not", false, []porcupine.Operation{
			op(grant, 1, succeeded, 0, 0, 1), op(guarded, 1, succeeded, 0, 2, 9),
			op(read, 0, succeeded, 1, 3, 4), op(read, 0, succeeded, 0, 5, 6),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := porcupine.Illegal
			if tt.legal {
				want = porcupine.Ok
			}
			if got := porcupine.CheckOperationsTimeout(fencedLock(), tt.history, 10*time.Second); got != want {
				t.Fatalf("got %v, want %v", got, want)
			}
		})
	}
}

func TestInOrder(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	tests := []struct {
		name    string
		effects []effect
		ok      bool
	}{
		{"one after the other", []effect{{1, "", 0, at(0), at(1)}, {1, "", 1, at(2), at(3)}, {2, "", 2, at(4), at(5)}}, true},
		{"overlapping", []effect{{1, "", 0, at(0), at(3)}, {2, "", 1, at(2), at(4)}}, false},
		{"older after newer", []effect{{2, "", 0, at(0), at(1)}, {1, "", 1, at(2), at(3)}}, false},
		{"not seen", []effect{{1, "", 0, at(0), at(1)}, {2, "", 0, at(2), at(3)}}, false},
	}
	for _, tt := range tests {
		if err := inOrder(tt.effects); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
