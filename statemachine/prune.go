package statemachine

import (
	"context"
	"errors"
	"time"

	"github.com/pgcoord/pgcoord/internal/prune"
)

// PruneOptions say what Prune deletes. The zero value deletes nothing.
type PruneOptions struct {
	// Attempts is how long ago an attempt must have ended. The last one of a row that
	// is not Done or Failed stays: attempts are counted by it. At least 1 min.
	// Default: never.
	Attempts time.Duration
	// Transitions is how old a recorded transition must be. At least 1 min. Default:
	// never.
	Transitions time.Duration
	// Operations is how old the record of an applied operation must be. Without it, a
	// repetition is applied again. At least 1 min. Default: never.
	Operations time.Duration
}

// Pruned is how many rows Prune deleted.
type Pruned struct{ Attempts, Transitions, Operations int64 }

// Prune deletes history of the machine, in small batches that wait for nobody.
// Tokens granted later exceed the deleted ones.
//
// It fails when a field of o is out of its range; what was deleted before an error
// stays deleted.
func (c *Coordinator) Prune(ctx context.Context, o PruneOptions) (Pruned, error) {
	var done Pruned
	if err := c.calls.Enter(); err != nil {
		return done, describe("prune", "", err)
	}
	defer c.calls.Leave()
	q, _, err := c.prepared(ctx)
	err = errors.Join(err,
		prune.Age("PruneOptions.Attempts", o.Attempts), prune.Age("PruneOptions.Transitions", o.Transitions),
		prune.Age("PruneOptions.Operations", o.Operations),
	)
	if err == nil && o.Attempts > 0 {
		done.Attempts, err = prune.All(ctx, c.run, q.prune, c.m.name, o.Attempts.Microseconds(), prune.Batch,
			string(c.step.Ready), string(c.step.Working))
	}
	if err == nil && o.Transitions > 0 {
		done.Transitions, err = prune.All(ctx, c.run, pruneTransitionsSQL, c.m.name, o.Transitions.Microseconds(), prune.Batch)
	}
	if err == nil {
		done.Operations, err = prune.Operations(ctx, c.run, c.domain(), o.Operations)
	}
	return done, describe("prune", "", err)
}
