package uniquelock_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/uniquelock"
)

func ExampleLease() {
	lease, err := locks.TryLock(ctx, "migration of tenants", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	// Does nothing after Complete.
	defer lease.Release(ctx)

	// Steps that are durable one by one …
	for range 3 {
		if err := lease.BeginFunc(ctx, insertReport); err != nil {
			log.Fatal(err)
		}
	}
	// … and a last one in the commit that ends the claim.
	fmt.Println(lease.Complete(ctx, insertReport))
	// Output: <nil>
}

func ExampleLease_BeginFunc() {
	lease, err := locks.TryLock(ctx, "account 1", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.BeginFunc(ctx, insertReport))

	// An operator, or the end of the lease, lets another one in.
	if err := locks.Break(ctx, "account 1", "holder does not answer"); err != nil {
		log.Fatal(err)
	}
	err = lease.BeginFunc(ctx, insertReport)
	fmt.Println(errors.Is(err, pgcoord.ErrLost))
	// Output:
	// <nil>
	// true
}

func ExampleLease_Complete() {
	lease, err := locks.TryLock(ctx, "account 2", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Complete(ctx, insertReport))
	fmt.Println(errors.Is(lease.Complete(ctx, insertReport), pgcoord.ErrDone))
	// Output:
	// <nil>
	// true
}

func ExampleLease_Release() {
	lease, err := locks.TryLock(ctx, "account 3", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Release(ctx))
	fmt.Println(lease.Release(ctx)) // a repetition changes nothing
	// Output:
	// <nil>
	// <nil>
}

func ExampleLease_Lost() {
	lease, err := locks.TryLock(ctx, "account 4", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := locks.Break(ctx, "account 4", "maintenance"); err != nil {
		log.Fatal(err)
	}
	<-lease.Lost()
	fmt.Println("stop: the claim is another's to take")
	// Output: stop: the claim is another's to take
}

func ExampleLease_Ensure() {
	lease, err := locks.TryLock(ctx, "account 5", uniquelock.LockOptions{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	// Before a call to the outside that takes up to 5 s. It makes it unlikely that
	// the claim is lost meanwhile; only BeginFunc and Complete make it impossible.
	fmt.Println(lease.Ensure(ctx, 5*time.Second))
	// Output: <nil>
}

func ExampleLease_Renew() {
	lease, err := locks.TryLock(ctx, "account 6", uniquelock.LockOptions{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	// Done in the background every third of the TTL; by hand before something
	// that needs all of it.
	fmt.Println(lease.Renew(ctx))
	// Output: <nil>
}

func ExampleLease_Remaining() {
	lease, err := locks.TryLock(ctx, "account 7", uniquelock.LockOptions{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Remaining().Round(10 * time.Second))
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Remaining())
	// Output:
	// 10s
	// 0s
}

func ExampleLease_Key() {
	lease, err := locks.TryLock(ctx, "account 8", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	fmt.Println(lease.Key())
	// Output: account 8
}

func ExampleLease_Token() {
	lease, err := locks.TryLock(ctx, "account 9", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	// A system outside of this database can refuse what comes late: it keeps the
	// largest token it has seen, and takes nothing with a smaller one.
	fmt.Println(lease.Token() > 0)
	// Output: true
}

// A transaction of one's own, for instance one that some other package begins.
func ExampleLease_Guard() {
	lease, err := locks.TryLock(ctx, "account 10", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := lease.Guard(ctx, tx); err != nil {
			return err
		}
		return insertReport(tx)
	})
	fmt.Println(err)
	// Output: <nil>
}
