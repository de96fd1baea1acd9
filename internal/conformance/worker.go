package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
)

// worker claims keys, counts under its claims, and writes down what it is told.
type worker struct {
	*recorder
	node     *node
	resolver *node
	rand     *rand.Rand
	asked    int64 // when the claim in hand was asked for
}

// never is the return time of a call whose effect may come at any later time.
const never = math.MaxInt64

func (k *worker) run(ctx context.Context, keys []string) {
	for i := 0; ctx.Err() == nil; i++ {
		key := keys[k.rand.IntN(len(keys))]
		limit, cancel := context.WithTimeout(ctx, 2*historyTTL)
		k.asked = k.now()
		claim, err := k.node.Acquire(limit, key)
		cancel()
		if err != nil {
			// It may have been granted to nobody, who does nothing with it.
			continue
		}
		if k.w.strategy.TokenAtGrant {
			k.add(k.asked, k.now(), call{grant, key, claim.Token()}, result{})
		}
		k.use(claim, fmt.Sprintf("%p %d", k, i))
	}
}

// note records what a claim did. Where a token counts only from the first commit
// under it, that commit is the grant too.
func (k *worker) note(from, to int64, c call, out result) {
	if !k.w.strategy.TokenAtGrant && out.Verdict != lost {
		k.add(k.asked, to, call{grant, c.Key, c.Token}, result{Verdict: out.Verdict})
	}
	k.add(from, to, c, out)
}

// use counts under claim and ends it.
func (k *worker) use(claim pgcoord.Claim, name string) {
	for i := range k.rand.IntN(4) {
		if !k.w.strategy.DurableGuards {
			break
		}
		if k.rand.IntN(3) == 0 {
			pause(k.w.ctx, rand.N(historyTTL/2))
		}
		if v := k.count(guarded, claim.BeginFunc, claim, fmt.Sprint(name, " ", i)); v == lost || v == unknown {
			break
		}
	}
	if !k.w.strategy.RemembersDone && k.rand.IntN(2) == 0 {
		switch k.count(complete, claim.Complete, claim, name+" end") {
		case succeeded:
			return
		case unknown: // what becomes of the claim does not matter for the order
			_ = claim.Release(k.w.ctx)
			return
		}
	}
	k.release(claim)
}

// count counts in a call of claim and records it.
func (k *worker) count(what kind, run func(context.Context, func(pgx.Tx) error) error, claim pgcoord.Claim, id string) verdict {
	limit, cancel := context.WithTimeout(k.w.ctx, 3*historyTTL)
	defer cancel()
	ctx := pgcoord.WithOperation(limit, id)
	c := call{what, claim.Key(), claim.Token()}
	var found int64
	from := k.now()
	err := run(ctx, func(tx pgx.Tx) (err error) {
		found, err = count(ctx, tx, c.Key, c.Token)
		return err
	})
	switch {
	case err == nil:
		k.note(from, k.now(), c, result{succeeded, found})
		return succeeded
	case errors.Is(err, pgcoord.ErrLost):
		k.note(from, k.now(), c, result{Verdict: lost})
		return lost
	case errors.Is(err, pgcoord.ErrOutcomeUnknown):
		k.unknown(from, c, found, id)
		return unknown
	}
	return nothing
}

// unknown resolves some of the calls whose outcome is unknown; of the others,
// both outcomes must make sense.
func (k *worker) unknown(from int64, c call, found int64, id string) {
	if k.rand.IntN(3) == 0 {
		k.note(from, never, c, result{Verdict: unknown})
		return
	}
	outcome, err := k.resolver.Resolve(k.w.ctx, c.Key, id)
	if err != nil {
		k.w.Errorf("Resolve: %v", err)
		return
	}
	if outcome == pgcoord.Applied {
		k.note(from, k.now(), c, result{succeeded, found})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tally["resolved: "+outcome.String()]++
}

// release tries until the answer is definite.
func (k *worker) release(claim pgcoord.Claim) {
	c := call{release, claim.Key(), claim.Token()}
	from := k.now()
	for over := time.Now().Add(10 * historyTTL); time.Now().Before(over); {
		limit, cancel := context.WithTimeout(k.w.ctx, historyTTL)
		err := claim.Release(limit)
		cancel()
		switch {
		case err == nil:
			k.note(from, k.now(), c, result{})
			return
		case errors.Is(err, pgcoord.ErrLost):
			k.note(from, k.now(), c, result{Verdict: lost})
			return
		}
	}
	k.note(from, never, c, result{Verdict: unknown})
}
