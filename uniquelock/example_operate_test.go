package uniquelock_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/uniquelock"
)

func ExampleCoordinator_List() {
	lease, err := locks.TryLock(ctx, "long job", uniquelock.LockOptions{
		Metadata: map[string]string{"step": "2 of 7"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	all, err := locks.List(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range all {
		if h.Key == "long job" {
			fmt.Printf("%s has %q, %s, for less than a minute: %t, %d wait\n",
				h.Holder, h.Key, h.Metadata["step"], h.Age < time.Minute, h.Waiters)
		}
	}
	// Output: worker 1 has "long job", 2 of 7, for less than a minute: true, 0 wait
}

func ExampleCoordinator_Break() {
	lease, err := locks.TryLock(ctx, "stuck job", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(locks.Break(ctx, "stuck job", "does not get on"))

	<-lease.Lost()
	fmt.Println(errors.Is(lease.Release(ctx), pgcoord.ErrLost))

	err = locks.Break(ctx, "stuck job", "once more")
	fmt.Println(errors.Is(err, pgcoord.ErrNotFound))
	// Output:
	// <nil>
	// true
	// true
}

func ExampleCoordinator_Prune() {
	pruned, err := locks.Prune(ctx, uniquelock.PruneOptions{
		Free:       7 * 24 * time.Hour,  // keys that nobody has used for a week
		Done:       90 * 24 * time.Hour, // done marks: the work could be done again after this
		Operations: 90 * 24 * time.Hour, // operation ids: the same
	})
	fmt.Println(pruned.Keys, pruned.Operations, err)
	// Output: 0 0 <nil>
}

func ExampleCoordinator_Verify() {
	fmt.Println(locks.Verify(ctx))
	// Output: <nil>
}

// After a restore from a dump into a new cluster, before anything is granted.
func ExampleCoordinator_Repair() {
	if err := locks.Repair(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(locks.Verify(ctx))
	// Output: <nil>
}
