// Command mutants proves that the tests can fail. It breaks the code on purpose,
// one line at a time, each in a copy of the tree, and runs the tests that are to
// notice: a mutant that they let pass is an error, as is one that does not
// compile or whose line is not there any more.
//
//	go -C integration run ./mutants                     all of them, one after the other
//	go -C integration run ./mutants -only '^guard-'     some of them
//	go -C integration run ./mutants -write              docs/mutants.md too
//
// It prints which test went red for each, as a table in Markdown.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "run the mutants whose name matches this regular expression")
	lanes := flag.Int("j", 1, "run this many mutants at once")
	write := flag.Bool("write", false, "write docs/mutants.md; rows of mutants that did not run stay as they are")
	list := flag.Bool("list", false, "list the mutants and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *lanes, *write, *list); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, lanes int, write, list bool) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range mutants() {
		if pattern.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant matches %q", only)
	}
	if list {
		for _, m := range chosen {
			fmt.Println(m.clause, m.name)
		}
		return nil
	}
	root, err := projectRoot(ctx)
	if err != nil {
		return err
	}
	verdicts, err := tryAll(ctx, root, chosen, lanes)
	if err != nil {
		return err
	}
	fmt.Print(table(chosen, verdicts))
	err = failures(chosen, verdicts)
	if write {
		err = errors.Join(err, writeDocument(filepath.Join(root, document), chosen, verdicts))
	}
	return err
}

func projectRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find the project: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// tryAll tries the mutants of the tree at root as it is now: what is changed there
// meanwhile does not count.
func tryAll(ctx context.Context, root string, chosen []mutant, lanes int) ([]verdict, error) {
	scratch, err := os.MkdirTemp("", "pgcoord-mutants-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	tree := filepath.Join(scratch, "tree")
	if err := copyProject(ctx, root, tree); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := soundBefore(ctx, tree, chosen); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "without mutants: green, %v\n", time.Since(began).Round(time.Second))
	verdicts := make([]verdict, len(chosen))
	turn := make(chan struct{}, max(lanes, 1))
	for i, m := range chosen {
		turn <- struct{}{}
		if ctx.Err() != nil {
			<-turn
			break
		}
		go func() {
			defer func() { <-turn }()
			verdicts[i] = try(ctx, tree, m)
			fmt.Fprintf(os.Stderr, "%d/%d %s: %v\n", i+1, len(chosen), m.name, verdicts[i])
		}()
	}
	for range cap(turn) {
		turn <- struct{}{}
	}
	return verdicts, ctx.Err()
}
