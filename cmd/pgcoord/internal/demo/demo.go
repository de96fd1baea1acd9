// Package demo is the command that shows what pgcoord is for: workers that are
// real processes charge the same order, and one is stopped just before it writes.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"

	"github.com/urfave/cli/v3"
)

// Help is indented by three columns.
const description = `Starts a PostgreSQL of its own and plays each story with three worker
processes, one of which is stopped (SIGSTOP) for longer than its lock lasts
and continued (SIGCONT). Takes about ten seconds.

With --database-url, or where PGCOORD_DATABASE_URL is set, it plays in that
database: in schema pgcoord_demo, which it drops at the end. Schema pgcoord
is installed if it is missing, and stays, with two rows for the demo's keys.

Tokens are shown without their upper bits, which tell the server's history;
--json has them whole.

The exit status is not 0 when pgcoord shows two effects, or when a story did
not run as told.`

// Command returns pgcoord demo.
func Command() *cli.Command {
	return &cli.Command{
		Name:        "demo",
		Usage:       "show a double charge under a naive lock, and none under pgcoord",
		Description: description,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print the results as JSON and nothing else"},
			&cli.StringFlag{Name: "database-url", Usage: "play in this database"},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return errors.New("demo takes no arguments; pgcoord demo --help lists its flags")
			}
			return run(ctx, cmd)
		},
	}
}

// run plays all scenarios and writes what came out.
func run(ctx context.Context, cmd *cli.Command) error {
	if err := supported(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, stopSignals...)
	defer stop()
	out, asJSON := cmd.Root().Writer, cmd.Bool("json")
	s := &screen{out: out, colours: coloursFit(out)}
	announce := s.opening
	if asJSON {
		s.out = io.Discard
		announce = func(label string) { _, _ = fmt.Fprintln(cmd.Root().ErrWriter, "pgcoord: playing on "+label) }
	}
	db := &database{dsn: cmd.String("database-url")}
	var results []result
	err := db.open(ctx)
	if err == nil {
		announce(db.label)
		results, err = playAll(ctx, db, s)
	}
	interrupted := err != nil && ctx.Err() != nil
	if interrupted {
		err = fmt.Errorf("demo interrupted (%w)", ctx.Err())
	}
	err = errors.Join(err, s.err, db.close())
	if asJSON && len(results) > 0 && !interrupted {
		err = errors.Join(err, writeJSON(out, results))
	}
	return err
}

// playAll plays one scenario after the other. Where one cannot be played it
// returns at once; where one comes out wrong it goes on and tells at the end.
func playAll(ctx context.Context, db *database, s *screen) (results []result, err error) {
	var wrong []error
	for i, sc := range scenarios {
		s.scenario(i+1, sc.about())
		r, err := playOne(ctx, sc, order(1001+i), db, s.moment)
		if err != nil {
			return results, errors.Join(append(wrong, err)...)
		}
		if err := r.verdict(); err != nil {
			wrong = append(wrong, err)
		} else {
			r.AsTold = true
		}
		s.ending(r)
		if s.err != nil {
			return results, nil // nobody is there to see the rest; run tells why
		}
		results = append(results, r)
	}
	s.table(results)
	return results, errors.Join(wrong...)
}
