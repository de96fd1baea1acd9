// Package pgerr reads what PostgreSQL says of a failure: by SQLSTATE, never by
// message text.
package pgerr

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgcoord/pgcoord"
)

// SQLSTATEs that the library decides by. Those of class PG are its own, raised
// by functions of the schema, or of the DDL for the application's table.
const (
	Gone             = "PGC01" // the claim is not the current one
	WrongTransaction = "PGC02" // user code ended the guarded transaction
	Undeclared       = "PGC03" // the trigger of a state machine refused the row

	// IdleInTransaction ends a transaction that waited too long for its client.
	IdleInTransaction = "25P03"
)

// Code returns the SQLSTATE of err, or "" when the server did not speak.
func Code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// Certain reports whether err proves that the statement it came from had no
// effect: the server refused it, or it was never sent. Of a connection that
// broke, and of a backend that was ended, nothing is certain, but for the idle
// limit: that one strikes before the statement is read.
func Certain(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		fatal := pgErr.SeverityUnlocalized == "FATAL" || pgErr.SeverityUnlocalized == "PANIC"
		return !fatal || pgErr.Code == IdleInTransaction || connecting(err)
	}
	return pgconn.SafeToRetry(err) || connecting(err)
}

// connecting reports whether err came from opening a connection.
func connecting(err error) bool {
	var connectErr *pgconn.ConnectError
	return errors.As(err, &connectErr)
}

// Transient reports whether the same statement may succeed on another
// connection or a little later: the connection broke, or the server is
// starting, stopping, out of slots or resolving a deadlock.
func Transient(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	code := Code(err)
	switch {
	case code == "":
		return pgconn.SafeToRetry(err) || connecting(err) || brokenConnection(err)
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "57P0"):
		return true
	}
	return code == "53300" || code == "40P01" || code == "40001" || code == IdleInTransaction || code == "57P05"
}

// callers is an error of the caller's own code.
type callers struct{ error }

func (e callers) Unwrap() error { return e.error }

// Callers marks an error of the caller's own code, about whose tables and
// privileges the library knows nothing: Describe tells no cure for it.
func Callers(err error) error { return callers{err} }

// FromCaller reports whether err came from the caller's own code, so that whatever
// it matches says nothing of the call that returns it.
func FromCaller(err error) bool {
	var own callers
	return errors.As(err, &own)
}

// Describe puts the operation and key before err, and the cure where the SQLSTATE
// tells one.
func Describe(op, key string, err error) error {
	if err == nil {
		return nil
	}
	about := "pgcoord: " + op
	if key != "" {
		about += fmt.Sprintf(" %q", shortened(key))
	}
	if sentinel := sentinelOf(err); sentinel != nil && !errors.Is(err, sentinel) {
		err = fmt.Errorf("%w: %w", sentinel, err)
	}
	if cure := cureOf(Code(err)); cure != "" && !FromCaller(err) {
		return fmt.Errorf("%s: %s: %w", about, cure, err)
	}
	return fmt.Errorf("%s: %w", about, err)
}

// shortened returns as much of key as an error needs: a bad one may be huge.
func shortened(key string) string {
	const longest = 512
	if len(key) <= longest {
		return key
	}
	return strings.ToValidUTF8(key[:longest], "") + "…"
}

func sentinelOf(err error) error {
	switch Code(err) {
	case Gone:
		return pgcoord.ErrLost
	case WrongTransaction, Undeclared, "40001":
		return pgcoord.ErrConflict
	}
	return nil
}

func cureOf(code string) string {
	switch code {
	case "3F000", "42P01", "42883", "42703":
		return "the schema pgcoord is missing or older than this library; apply sql/migrations (migrations.Up)"
	case "42501":
		return "the role lacks a privilege; docs/operations.md lists the grants"
	case "25006":
		return "the connection is read-only (a standby, or default_transaction_read_only is on); connect to the primary"
	case "2200H":
		return "the token sequence is used up; see docs/operations.md"
	}
	return ""
}
