package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/statemachine"
)

// machineName is what the demo's claims stand under in pgcoord.attempts.
const machineName = "pgcoord_demo.orders.status"

func orderMachine() (*statemachine.Machine, error) {
	return statemachine.Define(statemachine.Definition{
		Name:    machineName,
		Table:   "pgcoord_demo.orders",
		Initial: []statemachine.State{"PENDING"},
		Transitions: []statemachine.Transition{
			{From: "PENDING", To: "PROCESSING"},
			{From: "PROCESSING", To: "PAID"},
			{From: "PROCESSING", To: "PENDING"},
		},
	})
}

// stepped is a claim of statemachine: the row's state and its fencing token.
type stepped struct{ crash bool }

func (s stepped) about() about {
	a := about{
		name:     "statemachine",
		strategy: "statemachine",
		title:    "the row has the claim's token too, and each write compares it",
		pause:    "between claim and charge",
		expired:  "1 s is over: A's lease has run out",
		moral:    "The state was the same, the token was not.",
		guarded:  true,
	}
	if s.crash {
		a.name = "statemachine-crash"
		a.title = "A is stopped; B takes over and is killed in its transaction"
		a.pause = "before; B was killed inside"
		a.moral = "C finished what two had begun."
		a.alsoPaused = "B"
	}
	return a
}

func (s stepped) referee(_ context.Context, db *database, o order) (referee, error) {
	return leaseReferee{db.pool, statemachine.Key(int(o))}, nil
}

func (s stepped) tell(ctx context.Context, p *play, a, b, c *process) error {
	if s.crash {
		return p.relay(ctx, a, b, c)
	}
	return p.overlap(ctx, a, b, c, kindTook)
}

func (s stepped) work(ctx context.Context, w *worker) (err error) {
	m, err := orderMachine()
	if err != nil {
		return err
	}
	c, err := statemachine.New(w.pool, statemachine.Options{
		Machine: m, Holder: w.Worker,
		Step: statemachine.Step{Ready: "PENDING", Working: "PROCESSING", Done: "PAID", TTL: lockTTL},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	if err := w.ready(ctx); err != nil {
		return err
	}
	attempt, err := takeRow(ctx, w, c)
	if errors.Is(err, pgcoord.ErrDone) {
		w.say(kindEnded, 0, "finds it PAID: skips")
		return nil
	}
	if err != nil {
		return err
	}
	if err := w.took(ctx, attempt.Token(), fmt.Sprintf("attempt %d", attempt.Number())); err != nil {
		return err
	}
	return s.charge(ctx, w, attempt)
}

// takeRow claims the order's row, waiting for it if need be.
func takeRow(ctx context.Context, w *worker, c *statemachine.Coordinator) (*statemachine.Attempt, error) {
	key := statemachine.Key(int(w.order))
	attempt, err := c.TryClaim(ctx, key)
	var held *pgcoord.HeldError
	if !errors.As(err, &held) {
		return attempt, err
	}
	w.say(kindWaits, 0, "waits for "+held.Holder)
	return c.Claim(ctx, key)
}

// charge moves the row to PAID together with the charge. A is paused before that,
// the others, where the story wants it, inside the transaction.
func (s stepped) charge(ctx context.Context, w *worker, attempt *statemachine.Attempt) error {
	token := attempt.Token()
	inside := s.crash && w.Worker != pausedWorker
	if !inside {
		w.say(kindChecked, token, "PROCESSING, and mine")
		if err := w.point(ctx, token); err != nil {
			return err
		}
	}
	err := attempt.Complete(ctx, func(tx pgx.Tx) error {
		if err := w.order.charge(ctx, tx, w.Worker, token); err != nil {
			return err
		}
		if inside {
			w.say(kindChecked, token, "writes, no commit yet")
			return w.point(ctx, token)
		}
		return nil
	})
	if errors.Is(err, pgcoord.ErrLost) {
		w.say(kindRefused, token, "REFUSED")
		return nil
	}
	if err != nil {
		return err
	}
	w.say(kindCharged, token, "CHARGES")
	return nil
}
