// Command smallest is the smallest whole program: one of all its processes that
// run at the same time does the work.
package main

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/sql/migrations"
	"github.com/pgcoord/pgcoord/uniquelock"
)

func main() {
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
	if err := migrations.Up(ctx, pool); err != nil { // the schema pgcoord, once
		return err
	}
	locks, err := uniquelock.New(pool, uniquelock.Options{})
	if err != nil {
		return err
	}
	defer locks.Close(ctx)

	err = pgcoord.TryDo(ctx, locks, "visits", func(ctx context.Context, claim pgcoord.Claim) error {
		return claim.BeginFunc(ctx, func(tx pgx.Tx) error { // commits only while the claim is ours
			_, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS visits (at timestamptz DEFAULT clock_timestamp())")
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "INSERT INTO visits DEFAULT VALUES")
			return err
		})
	})
	if errors.Is(err, pgcoord.ErrHeld) {
		log.Print("another process is at it: ", err)
		return nil
	}
	return err
}
