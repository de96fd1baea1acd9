package demo

import (
	"context"
	"fmt"
	"time"
)

// lockTTL is how long a lock, or a lease that is not renewed, lasts.
const lockTTL = time.Second

// scenario is one way to keep workers apart. To add one, implement this in a
// file of its own and list it in scenarios.
type scenario interface {
	about() about

	// referee returns who knows, in the parent, whether a lock is over.
	referee(ctx context.Context, db *database, order order) (referee, error)

	// work runs in each worker: take the order, charge it unless it is paid,
	// let it go. The worker that is to be paused is paused in w.point.
	work(ctx context.Context, w *worker) error
}

// about describes a scenario.
type about struct {
	name     string // unique
	strategy string
	title    string
	pause    string // where the first worker is paused
	expired  string // what is seen when the paused worker's lock is over
	moral    string // what the story shows when it went as told
	guarded  bool   // one effect is promised; otherwise two are expected

	alsoPaused string // another worker that waits at its point; "" for none
}

// referee is the parent's side of a scenario while it plays.
type referee interface {
	// endpoint is where workers find what they share besides the database.
	endpoint() string
	// over tells whether the paused worker's lock has ended, by the clock of
	// whoever granted it.
	over(ctx context.Context, token int64) (bool, error)
	close() error
}

var scenarios = []scenario{
	naive{},
	naive{compareAndDelete: true},
	leased{},
	leased{inside: true},
	naiveCAS{},
	stepped{},
	stepped{crash: true},
}

func findScenario(name string) (scenario, error) {
	for _, s := range scenarios {
		if s.about().name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("no scenario %q", name)
}
