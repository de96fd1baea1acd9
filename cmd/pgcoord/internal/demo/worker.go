package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/urfave/cli/v3"
)

const workerName = "demo-worker"

// WorkerCommand returns the hidden command that the demo's processes run.
func WorkerCommand() *cli.Command {
	return &cli.Command{
		Name:   workerName,
		Usage:  "a worker of the demo; started by it",
		Hidden: true,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return runWorker(ctx, cmd.Root().Reader, cmd.Root().Writer)
		},
	}
}

// worker is one worker, seen from its own process.
type worker struct {
	assignment
	order order
	pool  *pgxpool.Pool
	out   *json.Encoder
	words <-chan struct{}
}

func runWorker(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("demo-worker is started by pgcoord demo and does nothing by itself")
	}
	w := &worker{out: json.NewEncoder(out)}
	if err := json.Unmarshal(lines.Bytes(), &w.assignment); err != nil {
		return fmt.Errorf("assignment: %w", err)
	}
	w.order = order(w.Order)
	words := make(chan struct{})
	w.words = words
	go func() {
		for lines.Scan() {
			words <- struct{}{}
		}
		os.Exit(1) // the parent is gone, and nobody waits for this worker
	}()
	if err := w.run(ctx); err != nil {
		w.say(kindFailed, 0, err.Error())
		return err
	}
	w.say(kindFinished, 0, "")
	return nil
}

func (w *worker) run(ctx context.Context) error {
	s, err := findScenario(w.Scenario)
	if err != nil {
		return err
	}
	w.pool, err = connect(ctx, w.DSN, sessionName(w.Worker))
	if err != nil {
		return err
	}
	defer w.pool.Close()
	return s.work(ctx, w)
}

// say tells the parent of a step.
func (w *worker) say(k kind, token int64, text string) {
	// A failed write means that the parent is gone; the reader of words ends
	// the process then.
	_ = w.out.Encode(event{k, token, text})
}

// ready tells the parent that all is prepared and waits for its word.
func (w *worker) ready(ctx context.Context) error {
	w.say(kindReady, 0, "")
	return w.await(ctx)
}

// took tells the parent that the order is this worker's and waits for its word,
// so that the story can have this worker hold the order while another wakes up.
func (w *worker) took(ctx context.Context, token int64, text string) error {
	w.say(kindTook, token, text)
	return w.await(ctx)
}

func (w *worker) await(ctx context.Context) error {
	select {
	case <-w.words:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// point is where the story pauses its first worker. It returns when this
// process has been continued, which only happens after it was stopped.
func (w *worker) point(ctx context.Context, token int64) error {
	if !w.Pause {
		return nil
	}
	continued, forget := onContinue()
	defer forget()
	w.say(kindPoint, token, "")
	select {
	case <-continued:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
