package pgcoord_test

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
	pool     = pgtest.ExamplePool("CREATE TABLE orders (id bigint PRIMARY KEY, charged int NOT NULL DEFAULT 0)", "INSERT INTO orders VALUES (1001)")
	locks, _ = uniquelock.New(pool, uniquelock.Options{Holder: "worker 1"})
)

func Example() {
	locks, err := uniquelock.New(pool, uniquelock.Options{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)

	err = pgcoord.TryDo(ctx, locks, "orders/1001", func(ctx context.Context, claim pgcoord.Claim) error {
		return claim.BeginFunc(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE orders SET charged = charged + 1 WHERE id = $1", 1001)
			return err
		})
	})
	fmt.Println(err)
	// Output: <nil>
}

// What a caller can decide by, whatever the strategy.
func Example_errors() {
	err := pgcoord.TryDo(ctx, locks, "", func(context.Context, pgcoord.Claim) error { return nil })
	switch {
	case err == nil:
		fmt.Println("done now")
	case errors.Is(err, pgcoord.ErrDone):
		fmt.Println("done before")
	case errors.Is(err, pgcoord.ErrHeld):
		fmt.Println("another one is at it")
	case errors.Is(err, pgcoord.ErrLost):
		fmt.Println("ours no longer: nothing of this transaction was written")
	case errors.Is(err, pgcoord.ErrOutcomeUnknown):
		fmt.Println("the reply to the commit got lost: repeat, or ask Resolve")
	case errors.Is(err, pgcoord.ErrInvalidKey):
		fmt.Println("no such name is possible")
	default:
		fmt.Println("failed, nothing of the failed transaction was written:", err)
	}
	// Output: no such name is possible
}

func ExampleDo() {
	err := pgcoord.Do(ctx, locks, "monthly report", func(ctx context.Context, claim pgcoord.Claim) error {
		// ctx ends, with cause ErrLost, when the claim is lost. What must not
		// happen under a lost claim belongs into BeginFunc or Complete.
		return claim.Complete(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE orders SET charged = 0")
			return err
		})
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleTryDo() {
	err := pgcoord.TryDo(ctx, locks, "nightly import", func(ctx context.Context, claim pgcoord.Claim) error {
		// While this runs, another one is turned away at once.
		err := pgcoord.TryDo(ctx, locks, "nightly import", func(context.Context, pgcoord.Claim) error {
			fmt.Println("never printed")
			return nil
		})
		fmt.Println(errors.Is(err, pgcoord.ErrHeld))
		return nil
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleCoordinator() {
	// A service that knows this interface alone can change the strategy.
	charge := func(c pgcoord.Coordinator, order int) error {
		key := fmt.Sprintf("order/%d", order)
		return pgcoord.Do(ctx, c, key, func(ctx context.Context, claim pgcoord.Claim) error {
			return claim.BeginFunc(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE orders SET charged = charged + 1 WHERE id = $1", order)
				return err
			})
		})
	}
	fmt.Println(charge(locks, 1001))
	// Output: <nil>
}

func ExampleClaim() {
	claim, err := locks.Acquire(ctx, "catalogue")
	if err != nil {
		log.Fatal(err)
	}
	next, err := locks.TryAcquire(ctx, "catalogue")
	fmt.Println(next, errors.Is(err, pgcoord.ErrHeld))

	// Work not done: the next one may try.
	if err := claim.Release(ctx); err != nil {
		log.Fatal(err)
	}
	next, err = locks.TryAcquire(ctx, "catalogue")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(next.Key(), next.Token() > claim.Token())

	// Work done: its last writes, here none, and the end of the claim are one commit.
	fmt.Println(next.Complete(ctx, nil))

	// Too late for the first one, whatever it still believes.
	err = claim.BeginFunc(ctx, func(pgx.Tx) error { return nil })
	fmt.Println(errors.Is(err, pgcoord.ErrLost))
	// Output:
	// <nil> true
	// catalogue true
	// <nil>
	// true
}

func ExampleHeldError() {
	claim, err := locks.TryAcquire(ctx, "invoice run")
	if err != nil {
		log.Fatal(err)
	}
	defer claim.Release(ctx)

	_, err = locks.TryAcquire(ctx, "invoice run")
	var held *pgcoord.HeldError
	if errors.As(err, &held) {
		fmt.Printf("%s has %q, token %t\n", held.Holder, held.Key, held.Token == claim.Token())
		fmt.Printf("for %v at least\n", held.Until.Sub(held.Since).Round(time.Second))
	}
	// Output:
	// worker 1 has "invoice run", token true
	// for 30s at least
}

func ExampleWithOperation() {
	// The id comes from outside: the same request has the same id, however often
	// it arrives.
	ctx := pgcoord.WithOperation(ctx, "request-7f3a")
	for range 2 {
		err := pgcoord.Do(ctx, locks, "order/1001", func(ctx context.Context, claim pgcoord.Claim) error {
			return claim.Complete(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE orders SET charged = charged + 1 WHERE id = $1", 1001)
				return err
			})
		})
		fmt.Println(err == nil, errors.Is(err, pgcoord.ErrDone))
	}
	// Output:
	// true false
	// false true
}

func ExampleOperation() {
	id, ok := pgcoord.Operation(pgcoord.WithOperation(ctx, "request-7f3a"))
	fmt.Println(id, ok)
	// Output: request-7f3a true
}

func ExampleResolver() {
	// A transaction of this operation failed with ErrOutcomeUnknown, and the
	// caller wants to know rather than to repeat it.
	outcome, err := locks.Resolve(ctx, "order/1001", "request-19c2")
	if err != nil {
		log.Fatal(err) // nothing is decided: ask again
	}
	fmt.Println(outcome)

	// The answer is for good: what was not applied by now is refused.
	late := pgcoord.WithOperation(ctx, "request-19c2")
	err = locks.TryDoTx(late, "order/1001", func(pgx.Tx) error { return nil })
	fmt.Println(errors.Is(err, pgcoord.ErrConflict))
	// Output:
	// not applied
	// true
}

func ExampleOutcome() {
	fmt.Println(pgcoord.Applied)
	fmt.Println(pgcoord.NotApplied)
	// Output:
	// applied
	// not applied
}

func ExampleWithGrantID() {
	// An attempt whose reply was lost can be repeated: the same id gets the same
	// claim, not "held".
	ctx := pgcoord.WithGrantID(ctx, "import of 2025-06-01, attempt 1")
	first, err := locks.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	again, err := locks.TryAcquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Token() == again.Token())
	fmt.Println(again.Release(ctx))
	// Output:
	// true
	// <nil>
}

func ExampleGrantID() {
	id, ok := pgcoord.GrantID(pgcoord.WithGrantID(ctx, "attempt 1"))
	fmt.Println(id, ok)
	// Output: attempt 1 true
}
