package pgcoord_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
)

// desk is a Coordinator and its one claim. It writes down what is asked of them.
type desk struct {
	mu      sync.Mutex
	calls   []string
	lost    chan struct{}
	held    error // what acquires answer
	ending  error // what Complete answers, once
	release error // what Release answers
	done    bool

	endContexts []context.Context
}

func newDesk() *desk { return &desk{lost: make(chan struct{})} }

func (d *desk) note(call string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, call)
}

func (d *desk) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.calls, want) {
		t.Errorf("calls %v, want %v", d.calls, want)
	}
}

func (d *desk) TryAcquire(ctx context.Context, _ string) (pgcoord.Claim, error) {
	d.note("try")
	if d.held != nil {
		return nil, d.held
	}
	return d, ctx.Err()
}

func (d *desk) Acquire(ctx context.Context, _ string) (pgcoord.Claim, error) {
	d.note("acquire")
	if d.held != nil {
		return nil, d.held
	}
	return d, ctx.Err()
}

func (d *desk) Key() string           { return "k" }
func (d *desk) Token() int64          { return 1 }
func (d *desk) Lost() <-chan struct{} { return d.lost }

func (d *desk) BeginFunc(context.Context, func(pgx.Tx) error) error { return nil }

func (d *desk) Complete(ctx context.Context, _ func(pgx.Tx) error) error {
	d.note("complete")
	d.endContexts = append(d.endContexts, ctx)
	if d.done {
		return pgcoord.ErrDone
	}
	d.done = d.ending == nil
	return d.ending
}

func (d *desk) Release(ctx context.Context) error {
	d.note("release")
	d.endContexts = append(d.endContexts, ctx)
	return d.release
}

var (
	errWork    = errors.New("the work failed")
	errNetwork = errors.New("the network failed")
)

// succeed, fail and die are works.
func succeed(context.Context, pgcoord.Claim) error { return nil }
func fail(context.Context, pgcoord.Claim) error    { return errWork }
func die(context.Context, pgcoord.Claim) error     { panic(errWork) }

func TestDoEnds(t *testing.T) {
	unknown := errors.Join(pgcoord.ErrOutcomeUnknown, errNetwork)
	lost := errors.Join(pgcoord.ErrLost, errNetwork)
	tests := []struct {
		name            string
		work            func(context.Context, pgcoord.Claim) error
		ending, release error
		calls           []string
		want            []error // all of them; none: nil
	}{
		{"success", succeed, nil, nil, []string{"acquire", "complete"}, nil},
		{"failure", fail, nil, nil, []string{"acquire", "release"}, []error{errWork}},
		{"Complete fails", succeed, errNetwork, nil, []string{"acquire", "complete", "release"}, []error{errNetwork}},
		{"Complete fails, and so does Release", succeed, errNetwork, errWork, []string{"acquire", "complete", "release"}, []error{errNetwork}},
		{"Complete is unknown", succeed, unknown, nil, []string{"acquire", "complete"}, []error{pgcoord.ErrOutcomeUnknown, errNetwork}},
		{"lost at Complete", succeed, lost, nil, []string{"acquire", "complete"}, []error{pgcoord.ErrLost, errNetwork}},
		{"failure, and lost at Release", fail, nil, lost, []string{"acquire", "release"}, []error{errWork, pgcoord.ErrLost}},
		{"failure, and Release fails", fail, nil, errNetwork, []string{"acquire", "release"}, []error{errWork, errNetwork}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk()
			d.ending, d.release = tt.ending, tt.release
			err := pgcoord.Do(t.Context(), d, "k", tt.work)
			if (err == nil) != (len(tt.want) == 0) {
				t.Errorf("Do: %v", err)
			}
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("Do: got %v, want %v in it", err, want)
				}
			}
			d.wantCalls(t, tt.calls...)
		})
	}
}

func TestDoWorkCompletes(t *testing.T) {
	d := newDesk()
	err := pgcoord.Do(t.Context(), d, "k", func(ctx context.Context, claim pgcoord.Claim) error {
		return claim.Complete(ctx, nil)
	})
	if err != nil {
		t.Errorf("Do whose work has completed the claim: %v", err)
	}
	d.wantCalls(t, "acquire", "complete", "complete")
}

func TestDoPanic(t *testing.T) {
	d := newDesk()
	func() {
		defer func() {
			if got := recover(); got != any(errWork) {
				t.Errorf("recovered %v, want %v", got, errWork)
			}
		}()
		_ = pgcoord.Do(t.Context(), d, "k", die)
	}()
	d.wantCalls(t, "acquire", "release")
}

func TestDoGoexit(t *testing.T) {
	d := newDesk()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = pgcoord.Do(context.Background(), d, "k", func(context.Context, pgcoord.Claim) error {
			runtime.Goexit()
			return nil
		})
	}()
	<-over
	d.wantCalls(t, "acquire", "release")
}

func TestDoLoss(t *testing.T) {
	d := newDesk()
	err := pgcoord.Do(t.Context(), d, "k", func(ctx context.Context, _ pgcoord.Claim) error {
		close(d.lost)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, pgcoord.ErrLost) {
			t.Errorf("the context of the work ended with cause %v", cause)
		}
		return errWork
	})
	if !errors.Is(err, errWork) || !errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("Do: %v", err)
	}
	d.wantCalls(t, "acquire", "release")
}

// TestDoCancelled: the claim ends after the work has returned, not before, and
// under a context that has not ended.
func TestDoCancelled(t *testing.T) {
	d := newDesk()
	ctx, cancel := context.WithCancel(t.Context())
	err := pgcoord.Do(ctx, d, "k", func(workCtx context.Context, _ pgcoord.Claim) error {
		cancel()
		<-workCtx.Done()
		if cause := context.Cause(workCtx); !errors.Is(cause, context.Canceled) {
			t.Errorf("the context of the work ended with cause %v", cause)
		}
		d.note("work is over")
		return workCtx.Err()
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("Do: %v", err)
	}
	d.wantCalls(t, "acquire", "work is over", "release")
}

// TestDoEndContext: what ends the claim is bounded, keeps the values of the
// caller's context, and is not the operation that the context names.
func TestDoEndContext(t *testing.T) {
	type name struct{}
	for _, work := range []func(context.Context, pgcoord.Claim) error{succeed, fail} {
		d := newDesk()
		ctx := pgcoord.WithOperation(context.WithValue(t.Context(), name{}, "value"), "op")
		ctx, cancel := context.WithCancel(ctx)
		_ = pgcoord.Do(ctx, d, "k", func(ctx context.Context, claim pgcoord.Claim) error {
			if id, ok := pgcoord.Operation(ctx); id != "op" || !ok {
				t.Errorf("the work's operation is %q, %v", id, ok)
			}
			cancel()
			return work(ctx, claim)
		})
		for _, end := range d.endContexts {
			if deadline, ok := end.Deadline(); !ok || time.Until(deadline) > time.Minute {
				t.Error("the end of the claim has no bound")
			}
			if end.Value(name{}) != "value" {
				t.Error("the end of the claim does not see the caller's values")
			}
			if id, ok := pgcoord.Operation(end); ok {
				t.Errorf("the end of the claim goes as operation %q", id)
			}
		}
	}
}

func TestAcquireFails(t *testing.T) {
	tests := []struct {
		name string
		do   func(context.Context, pgcoord.Coordinator, string, func(context.Context, pgcoord.Claim) error) error
		call string
	}{{"Do", pgcoord.Do, "acquire"}, {"TryDo", pgcoord.TryDo, "try"}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk()
			d.held = &pgcoord.HeldError{Key: "k"}
			err := tt.do(t.Context(), d, "k", func(context.Context, pgcoord.Claim) error {
				t.Error("the work ran without a claim")
				return nil
			})
			if !errors.Is(err, pgcoord.ErrHeld) {
				t.Errorf("got %v", err)
			}
			d.wantCalls(t, tt.call)
			d.held = nil
			if err := tt.do(t.Context(), d, "k", succeed); err != nil {
				t.Errorf("got %v once the key is free", err)
			}
			d.wantCalls(t, tt.call, tt.call, "complete")
		})
	}
}
