package uniquelock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// What the examples use: a pool on a database that has the schema of
// sql/migrations, and a coordinator on it.
var (
	ctx      = context.Background()
	pool     = pgtest.ExamplePool("CREATE TABLE reports (day date NOT NULL)", "CREATE TABLE totals (id int PRIMARY KEY, n int NOT NULL)", "INSERT INTO totals VALUES (1, 0)")
	locks, _ = uniquelock.New(pool, uniquelock.Options{Holder: "worker 1"})
)

// insertReport is work: any statements of a transaction.
func insertReport(tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO reports VALUES (current_date)")
	return err
}

func ExampleNew() {
	locks, err := uniquelock.New(pool, uniquelock.Options{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = pgcoord.TryDo(ctx, locks, "report", func(ctx context.Context, claim pgcoord.Claim) error {
		return claim.BeginFunc(ctx, insertReport)
	})
	fmt.Println(err)
	// Output: <nil>
}

// Work that must be done once for good: the day is part of the key.
func ExampleOptions_once() {
	locks, err := uniquelock.New(pool, uniquelock.Options{Once: true})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	for range 2 {
		err := pgcoord.Do(ctx, locks, "report of 2025-06-01", func(ctx context.Context, claim pgcoord.Claim) error {
			return claim.Complete(ctx, insertReport)
		})
		fmt.Println(err == nil, errors.Is(err, pgcoord.ErrDone))
	}
	// Output:
	// true false
	// false true
}

// A short job whose schedule fires a little later on some hosts: it does not run
// again there.
func ExampleOptions_minHold() {
	locks, err := uniquelock.New(pool, uniquelock.Options{MinHold: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	tick := func() error {
		return pgcoord.TryDo(ctx, locks, "every hour", func(context.Context, pgcoord.Claim) error { return nil })
	}
	fmt.Println(tick())
	fmt.Println(errors.Is(tick(), pgcoord.ErrHeld))
	// Output:
	// <nil>
	// true
}

func ExampleCoordinator_TryAcquire() {
	claim, err := locks.TryAcquire(ctx, "cache refresh")
	if errors.Is(err, pgcoord.ErrHeld) {
		return // another host is at it
	}
	if err != nil {
		log.Fatal(err)
	}
	defer claim.Release(ctx)

	fmt.Println(claim.BeginFunc(ctx, insertReport))
	// Output: <nil>
}

func ExampleCoordinator_Acquire() {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	claim, err := locks.Acquire(ctx, "one at a time")
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.Acquire(ctx, "one at a time") // waits
	fmt.Println(errors.Is(err, context.DeadlineExceeded))

	fmt.Println(claim.Release(context.WithoutCancel(ctx)))
	// Output:
	// true
	// <nil>
}

func ExampleCoordinator_TryLock() {
	lease, err := locks.TryLock(ctx, "video 17", uniquelock.LockOptions{
		TTL:      5 * time.Second,
		Metadata: map[string]string{"step": "encode"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	fmt.Println(lease.Remaining() > 4*time.Second)
	// Output: true
}

func ExampleCoordinator_Lock() {
	first, err := locks.Lock(ctx, "video 18", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := first.Release(ctx); err != nil {
			log.Print(err)
		}
	}()

	second, err := locks.Lock(ctx, "video 18", uniquelock.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(second.Token() > first.Token())
	fmt.Println(second.Release(ctx))
	// Output:
	// true
	// <nil>
}

func ExampleCoordinator_TryDoTx() {
	err := locks.TryDoTx(ctx, "totals", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE totals SET n = n + 1 WHERE id = 1")
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleCoordinator_DoTx() {
	// With an operation's id, a repetition is told apart.
	ctx := pgcoord.WithOperation(ctx, "request-7f3a")
	add := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE totals SET n = n + 1 WHERE id = 1")
		return err
	}
	fmt.Println(locks.DoTx(ctx, "totals", add))
	fmt.Println(errors.Is(locks.DoTx(ctx, "totals", add), pgcoord.ErrDone))
	// Output:
	// <nil>
	// true
}

func ExampleCoordinator_Resolve() {
	named := pgcoord.WithOperation(ctx, "request-19c2")
	if err := locks.TryDoTx(named, "totals", func(pgx.Tx) error { return nil }); err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"request-19c2", "request-20d0"} {
		outcome, err := locks.Resolve(ctx, "totals", id)
		fmt.Println(outcome, err)
	}
	// Output:
	// applied <nil>
	// not applied <nil>
}

func ExampleCoordinator_Close() {
	locks, err := uniquelock.New(pool, uniquelock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := locks.TryAcquire(ctx, "shutdown"); err != nil {
		log.Fatal(err)
	}

	// Work that is going on may need a while; what does not end by then is
	// given up, and its key is free at the end of its TTL.
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	fmt.Println(locks.Close(limited))

	_, err = locks.TryAcquire(ctx, "shutdown")
	fmt.Println(errors.Is(err, pgcoord.ErrClosed))
	// Output:
	// <nil>
	// true
}
