package uniquelock

import (
	"context"
	"errors"
	"time"

	"github.com/pgcoord/pgcoord/internal/prune"
)

// PruneOptions say what Prune deletes. The zero value deletes free keys only.
type PruneOptions struct {
	// Free is how long a key must have been free. At least 1 min. Default: 24 h.
	Free time.Duration
	// Done is how old a done mark must be. Without it, a key may be done again. At
	// least 1 min. Default: never.
	Done time.Duration
	// Operations is how old the record of an applied operation must be. Without it,
	// a repetition is applied again. At least 1 min. Default: never.
	Operations time.Duration
}

// Pruned is how many rows Prune deleted.
type Pruned struct {
	Keys       int64 // free ones and done marks
	Operations int64
}

// Prune deletes the rows of keys that have been free for long, and what else o
// says, in small batches that wait for nobody. Tokens granted later exceed the
// deleted ones.
//
// It fails when a field of o is out of its range; what was deleted before an
// error stays deleted.
func (c *Coordinator) Prune(ctx context.Context, o PruneOptions) (Pruned, error) {
	var done Pruned
	if err := c.calls.Enter(); err != nil {
		return done, describe("prune", "", err)
	}
	defer c.calls.Leave()
	if o.Free == 0 {
		o.Free = 24 * time.Hour
	}
	err := errors.Join(
		prune.Age("PruneOptions.Free", o.Free), prune.Age("PruneOptions.Done", o.Done),
		prune.Age("PruneOptions.Operations", o.Operations),
	)
	if err == nil {
		done.Keys, err = prune.All(ctx, c.run, pruneSQL, o.Free.Microseconds(), o.Done.Microseconds(), prune.Batch)
	}
	if err == nil {
		done.Operations, err = prune.Operations(ctx, c.run, domain, o.Operations)
	}
	return done, describe("prune", "", err)
}
