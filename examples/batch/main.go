// Command batch is a nightly batch that starts on every host of a fleet at the
// same time. One of them does the work. The others wait; they find it done, or go
// on with it where that one died.
//
//	DATABASE_URL=postgres://… go run ./examples/batch -day 2025-06-01
//
// It expects a table accounts (id bigint, balance numeric, booked_on date).
package main

import (
	"context"
	"errors"
	"flag"
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
	day = flag.String("day", time.Now().Format(time.DateOnly), "book for this day")
	ttl = flag.Duration("ttl", 30*time.Second, "others take over this long after a host died")
)

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
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
	locks, err := uniquelock.New(pool, uniquelock.Options{TTL: *ttl, Once: true})
	if err != nil {
		return err
	}
	defer locks.Close(ctx)

	err = pgcoord.Do(ctx, locks, "interest/"+*day, bookInterest)
	if errors.Is(err, pgcoord.ErrDone) {
		log.Print("another host has done it")
		return nil
	}
	if err == nil {
		log.Print("done")
	}
	return err
}

// bookInterest books in steps. Each is one commit with the mark that tells the
// next step, of this host or of one that takes over, where to go on.
func bookInterest(ctx context.Context, claim pgcoord.Claim) error {
	for {
		var booked int64
		err := claim.BeginFunc(ctx, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, `
				UPDATE accounts SET balance = balance * 1.01, booked_on = $1
				 WHERE id IN (SELECT id FROM accounts WHERE booked_on < $1 ORDER BY id LIMIT 100)`, *day)
			booked = tag.RowsAffected()
			return err
		})
		if err != nil || booked == 0 {
			return err
		}
	}
}
