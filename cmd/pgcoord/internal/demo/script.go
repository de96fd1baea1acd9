package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	pausedWorker = "A"
	playLimit    = 20 * time.Second
	lookInterval = 5 * time.Millisecond
)

// play is one scenario being played.
type play struct {
	about   about
	order   order
	db      *database
	referee referee
	show    func(moment)

	start   time.Time
	workers []*process
	result  result
}

// playOne plays the scenario s with the order o, shows each moment as it comes
// and returns what came out.
func playOne(ctx context.Context, s scenario, o order, db *database, show func(moment)) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, playLimit, fmt.Errorf("not over after %v", playLimit))
	defer cancel()
	p := &play{about: s.about(), order: o, db: db, show: show}
	p.result = result{
		about: p.about, Strategy: p.about.strategy, Name: p.about.name, Paused: p.about.pause, Order: int(o),
	}
	err := p.perform(ctx, s)
	for _, w := range p.workers {
		w.end()
	}
	if p.referee != nil {
		err = errors.Join(err, p.referee.close())
	}
	if err != nil {
		return p.result, fmt.Errorf("%s: %w", p.about.name, err)
	}
	return p.result, nil
}

func (p *play) perform(ctx context.Context, s scenario) error {
	if err := p.order.create(ctx, p.db.pool); err != nil {
		return err
	}
	var err error
	if p.referee, err = s.referee(ctx, p.db, p.order); err != nil {
		return err
	}
	for _, name := range []string{pausedWorker, "B", "C"} {
		w, err := startWorker(ctx, assignment{
			Scenario: p.about.name, Worker: name, Pause: name == pausedWorker || name == p.about.alsoPaused,
			DSN: p.db.dsn, Endpoint: p.referee.endpoint(), Order: int(p.order),
		})
		if err != nil {
			return err
		}
		p.workers = append(p.workers, w)
	}
	for _, w := range p.workers {
		if err := p.until(ctx, w, kindReady); err != nil {
			return err
		}
	}
	p.start = time.Now()
	tell := p.tell
	if own, ok := s.(storyteller); ok {
		tell = func(ctx context.Context, a, b, c *process) error { return own.tell(ctx, p, a, b, c) }
	}
	if err := tell(ctx, p.workers[0], p.workers[1], p.workers[2]); err != nil {
		return err
	}
	p.result.Effects, p.result.ChargedCents, err = p.order.count(ctx, p.db.pool)
	return err
}

// tell is the story: first takes the order and is stopped just before it
// writes; another does the work; the third holds the order when first wakes up.
func (p *play) tell(ctx context.Context, first, b, c *process) error {
	token, err := p.stop(ctx, first)
	if err != nil {
		return err
	}
	for _, w := range []*process{b, c} {
		if err := p.enter(ctx, w, kindWaits, kindTook); err != nil {
			return err
		}
	}
	if err := p.awaitOver(ctx, token, p.about.expired); err != nil {
		return err
	}
	second, third, err := p.race(ctx, b, c)
	if err != nil {
		return err
	}
	if err := p.enter(ctx, second, kindFinished); err != nil {
		return err
	}
	if err := p.until(ctx, third, kindTook, kindFinished); err != nil {
		return err
	}
	if err := p.goOn(ctx, first, token); err != nil {
		return err
	}
	return p.enter(ctx, third, kindFinished)
}

// stop has first take the order and stops it before it writes.
func (p *play) stop(ctx context.Context, first *process) (token int64, err error) {
	if err := p.enter(ctx, first, kindTook); err != nil {
		return 0, err
	}
	token = p.lastToken()
	if err := p.enter(ctx, first, kindPoint); err != nil {
		return 0, err
	}
	if err := first.freeze(); err != nil {
		return 0, err
	}
	p.note(first.name, event{kindStopped, token, "STOPPED (SIGSTOP)"})
	return token, nil
}

// goOn continues first, which was stopped, and follows it to its end.
func (p *play) goOn(ctx context.Context, first *process, token int64) error {
	if err := first.thaw(); err != nil {
		return err
	}
	p.note(first.name, event{kindContinued, token, "goes on (SIGCONT)"})
	return p.until(ctx, first, kindFinished)
}

// enter says the word that w waits for and follows it until one of kinds.
func (p *play) enter(ctx context.Context, w *process, kinds ...kind) error {
	if w.told[kindFinished] {
		return nil
	}
	if err := w.proceed(); err != nil {
		return err
	}
	return p.until(ctx, w, kinds...)
}

// until shows the events of w up to the first of kinds; none when it was told
// before.
func (p *play) until(ctx context.Context, w *process, kinds ...kind) error {
	for !w.toldAny(kinds) {
		e, err := w.next(ctx)
		if err != nil {
			return err
		}
		if err := p.witness(ctx, w, e); err != nil {
			return err
		}
	}
	return nil
}

// race returns the worker that takes the order first, and the other one.
func (p *play) race(ctx context.Context, b, c *process) (winner, loser *process, err error) {
	for !b.told[kindTook] && !c.told[kindTook] {
		w := b
		var e event
		var ok bool
		select {
		case e, ok = <-b.events:
		case e, ok = <-c.events:
			w = c
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("workers B and C: %w", context.Cause(ctx))
		}
		if e, err = w.take(e, ok); err == nil {
			err = p.witness(ctx, w, e)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if b.told[kindTook] {
		return b, c, nil
	}
	return c, b, nil
}

// awaitOver waits until the lock of token has ended, by the clock of whoever
// granted it.
func (p *play) awaitOver(ctx context.Context, token int64, expired string) error {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		over, err := p.referee.over(ctx, token)
		if err != nil {
			return err
		}
		if over {
			p.note("", event{kindExpired, 0, expired})
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("end of the lock: %w", context.Cause(ctx))
		}
	}
}
