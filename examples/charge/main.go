// Command charge charges an order once for each request, however often the
// request arrives and whatever breaks on the way.
//
//	DATABASE_URL=postgres://… go run ./examples/charge -order 1001 -request 7f3a
//
// It expects tables orders (id bigint, amount numeric) and charges (order_id
// bigint, amount numeric).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/sql/migrations"
	"github.com/pgcoord/pgcoord/uniquelock"
)

var (
	order   = flag.Int64("order", 0, "id of the order")
	request = flag.String("request", "", "id of the request, the same when it is repeated")
)

func main() {
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool); err != nil {
		return err
	}
	locks, err := uniquelock.New(pool, uniquelock.Options{})
	if err != nil {
		return err
	}
	defer locks.Close(ctx)

	if err := charge(ctx, locks, *order, *request); err != nil {
		return err
	}
	log.Printf("order %d is charged", *order)
	return nil
}

// charge returns nil when the order is charged for this request, now or before.
func charge(ctx context.Context, locks *uniquelock.Coordinator, order int64, request string) error {
	key := fmt.Sprintf("orders/%d", order)
	ctx = pgcoord.WithOperation(ctx, request)
	for {
		err := locks.DoTx(ctx, key, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO charges SELECT id, amount FROM orders WHERE id = $1", order)
			return err
		})
		switch {
		case errors.Is(err, pgcoord.ErrDone):
			return nil // by an earlier attempt
		case errors.Is(err, pgcoord.ErrOutcomeUnknown) && ctx.Err() == nil:
			continue // the same id: it is applied now, or it was
		}
		return err
	}
}
