package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// document is written with -write.
const document = "docs/mutants.md"

const preamble = `# Broken on purpose

A test that cannot fail proves nothing. Each row is a change of one place in the code,
made in a copy of the tree, and the first test that went red under it. The clauses are
those of [the contract](contract.md).

This file is generated: ` + "`go -C integration run ./mutants -write`" + `, which takes about 40
minutes; ` + "`-only`" + ` with a regular expression tries some. A mutant that survives fails the
command and has no row here, and then a test of the command fails too.

`

const (
	header = "| mutant | clause | changed | first test that went red |\n|---|---|---|---|\n"
	begin  = "| "
)

func row(m mutant, v verdict) string {
	what := v.test
	if v.err != nil {
		what, _, _ = strings.Cut("**"+v.err.Error(), "\n")
		what += "**"
	}
	return fmt.Sprintf("%s%s | %s | %s:%d | %s |\n", begin, m.name, m.clause, m.file, v.line, strings.ReplaceAll(what, "|", "\\|"))
}

func table(chosen []mutant, verdicts []verdict) string {
	var b strings.Builder
	b.WriteString(header)
	for i, m := range chosen {
		b.WriteString(row(m, verdicts[i]))
	}
	return b.String()
}

// failures tells what the run has to be ended with.
func failures(chosen []mutant, verdicts []verdict) error {
	var errs []error
	for i, m := range chosen {
		if v := verdicts[i]; v.err != nil {
			errs = append(errs, fmt.Errorf("%s (%s): %w", m.name, m.clause, v.err))
		}
	}
	if errs == nil {
		return nil
	}
	return fmt.Errorf("%d of %d mutants failed:\n%w", len(errs), len(chosen), errors.Join(errs...))
}

// writeDocument puts the rows of the chosen mutants into the document, and takes
// those of the failed ones away.
func writeDocument(name string, chosen []mutant, verdicts []verdict) error {
	rows := map[string]string{}
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(old)) {
		if mutant, _, ok := strings.Cut(strings.TrimPrefix(line, begin), " |"); ok {
			rows[mutant] = line
		}
	}
	for i, m := range chosen {
		delete(rows, m.name)
		if verdicts[i].err == nil {
			rows[m.name] = row(m, verdicts[i])
		}
	}
	var b strings.Builder
	b.WriteString(preamble + header)
	for _, m := range mutants() {
		b.WriteString(rows[m.name])
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
