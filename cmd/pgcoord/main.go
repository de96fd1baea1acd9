// Command pgcoord shows, and later operates, exclusion on PostgreSQL.
//
// Each command is a package below internal that returns its *cli.Command.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/pgcoord/pgcoord/cmd/pgcoord/internal/demo"
)

// exitInterrupted is what shells report for a command that Ctrl-C ended.
const exitInterrupted = 130

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes the command line and returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := root(stdin, stdout, stderr).Run(ctx, args)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "pgcoord: "+strings.TrimPrefix(err.Error(), "pgcoord: "))
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	return 1
}

func root(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "pgcoord",
		Usage:     "exclusion for services on PostgreSQL",
		Reader:    stdin,
		Writer:    stdout,
		ErrWriter: stderr,
		Suggest:   true,
		Commands: []*cli.Command{
			demo.Command(),
			demo.WorkerCommand(),
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return fmt.Errorf("no command %q; pgcoord help lists them", name)
			}
			return cli.ShowRootCommandHelp(cmd)
		},
		// The default handler ends the process before deferred work is done.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
	}
}
