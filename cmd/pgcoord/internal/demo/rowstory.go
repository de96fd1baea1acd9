package demo

import "context"

// storyteller is a scenario whose story is not that of play.tell.
type storyteller interface {
	tell(ctx context.Context, p *play, a, b, c *process) error
}

// overlap is the story of a row that comes back to the state in which first left
// it: another is at work on it, up to busy, when first goes on.
func (p *play) overlap(ctx context.Context, first, b, c *process, busy kind) error {
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
	if busy != kindTook {
		if err := p.enter(ctx, second, busy); err != nil {
			return err
		}
	}
	if err := p.goOn(ctx, first, token); err != nil {
		return err
	}
	if err := p.enter(ctx, second, kindFinished); err != nil {
		return err
	}
	return p.until(ctx, third, kindFinished)
}

// relay is the story of a row that needs three: first is stopped, second is killed
// in the middle of its transaction, third finishes the work; then first goes on.
func (p *play) relay(ctx context.Context, first, second, third *process) error {
	token, err := p.stop(ctx, first)
	if err != nil {
		return err
	}
	if err := p.takeOver(ctx, second, token, p.about.expired); err != nil {
		return err
	}
	dead := p.lastToken()
	if err := p.enter(ctx, second, kindPoint); err != nil {
		return err
	}
	second.end()
	p.note(second.name, event{kindKilled, dead, "KILLED (SIGKILL)"})
	if err := p.takeOver(ctx, third, dead, "1 s is over: B's lease has run out"); err != nil {
		return err
	}
	if err := p.enter(ctx, third, kindFinished); err != nil {
		return err
	}
	return p.goOn(ctx, first, token)
}

// takeOver has w wait for the row until the lock of token is over, and claim it.
func (p *play) takeOver(ctx context.Context, w *process, token int64, expired string) error {
	if err := p.enter(ctx, w, kindWaits, kindTook); err != nil {
		return err
	}
	if err := p.awaitOver(ctx, token, expired); err != nil {
		return err
	}
	return p.until(ctx, w, kindTook)
}
