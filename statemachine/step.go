package statemachine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/keys"
	"github.com/pgcoord/pgcoord/internal/limits"
)

// Step is the part of a machine that a worker performs: it claims rows in Ready,
// which puts them into Working, and brings them to Done or Failed.
type Step struct {
	// Ready, Working and Done are states of the machine; the edges Ready to Working
	// and Working to Done must be declared. Required.
	Ready, Working, Done State

	// Failed is where a row goes that failed for good; the edge Working to Failed must
	// be declared. Default: none; a row that failed goes back to Ready.
	Failed State

	// MaxAttempts is how often a row is tried before it goes to Failed, which is
	// required then. Default: 0, no limit.
	MaxAttempts int

	// Backoff is how long a row rests in Ready after its first failure; it doubles
	// with each attempt up to MaxBackoff. Defaults: 0, and 1 h. At most 24 h.
	Backoff, MaxBackoff time.Duration

	// TTL is how long a claim outlives its process: the reaper may take the row back
	// that long after the last renewal. Renewals come every third of it. 50 ms to
	// 24 h. Default: 30 s.
	TTL time.Duration

	// IdleLimit is how long a guarded transaction may wait for its function to send
	// the next statement; then the server ends it. 50 ms to 24 h. Default: TTL.
	IdleLimit time.Duration

	// NoAdoption refuses a worker that comes back late, after the reaper has put its
	// row back, even where nobody has claimed the row since. Default: false, it may
	// finish; once the row was claimed again it is refused in any case.
	NoAdoption bool
}

// Options configure a Coordinator.
type Options struct {
	// Machine is the machine. Required.
	Machine *Machine

	// Step is the part of it that claims stand for. Required.
	Step Step

	// Holder names this process to others, in HeldError and pgcoord.attempts. At most
	// 512 bytes. Default: the host's name and the process id.
	Holder string

	// Logger receives what is worth knowing in the background; nothing on contention.
	// Default: none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	s := &o.Step
	if s.TTL == 0 {
		s.TTL = 30 * time.Second
	}
	if s.IdleLimit == 0 {
		s.IdleLimit = s.TTL
	}
	if s.MaxBackoff == 0 {
		s.MaxBackoff = max(time.Hour, s.Backoff)
	}
	if o.Holder == "" {
		o.Holder = limits.ThisProcess()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) check(pool *pgxpool.Pool) error {
	switch {
	case pool == nil:
		return errors.New("pool is nil")
	case o.Machine == nil:
		return errors.New("Options.Machine is nil")
	case o.Machine.token == "":
		return errors.New("Options.Machine has no token column, without which nothing refuses a late worker")
	}
	return errors.Join(
		o.Step.checkStates(o.Machine),
		limits.Duration("Options.Step.TTL", o.Step.TTL, limits.MinTTL),
		limits.Duration("Options.Step.IdleLimit", o.Step.IdleLimit, limits.MinTTL),
		limits.Duration("Options.Step.Backoff", o.Step.Backoff, 0),
		limits.Duration("Options.Step.MaxBackoff", o.Step.MaxBackoff, o.Step.Backoff),
		keys.CheckText("Options.Holder", o.Holder, limits.Holder),
	)
}

func (s Step) checkStates(m *Machine) error {
	var faults []error
	edge := func(what string, from, to State) {
		if !m.Allows(from, to) {
			faults = append(faults, fmt.Errorf("Options.Step.%s: the edge %q to %q is not declared", what, from, to))
		}
	}
	edge("Ready", s.Ready, s.Working)
	edge("Done", s.Working, s.Done)
	if s.Failed != "" {
		edge("Failed", s.Working, s.Failed)
	}
	switch {
	case s.MaxAttempts < 0:
		faults = append(faults, fmt.Errorf("Options.Step.MaxAttempts is %d, it must not be negative", s.MaxAttempts))
	case s.MaxAttempts > 0 && s.Failed == "":
		faults = append(faults, errors.New("Options.Step.MaxAttempts needs Options.Step.Failed"))
	case s.Failed == "" && !m.Allows(s.Working, s.Ready):
		faults = append(faults, fmt.Errorf(
			"Options.Step: a row whose worker dies can go nowhere; declare the edge %q to %q, or set Failed", s.Working, s.Ready))
	}
	return errors.Join(faults...)
}

// backoff returns how long a row rests after the failure of its attempt-th attempt.
func (s Step) backoff(attempt int) time.Duration {
	d := s.Backoff
	for range attempt - 1 {
		if d >= s.MaxBackoff {
			break
		}
		d *= 2
	}
	return min(d, s.MaxBackoff)
}
