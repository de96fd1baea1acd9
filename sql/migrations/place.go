package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// place is where a connection leads.
type place struct {
	database, role, schema string
	standby                bool
}

// findPlace fails when the connection is shared with others, as behind a
// transaction pooler, or has no schema for the version table.
func findPlace(ctx context.Context, conn *pgx.Conn) (place, error) {
	var p place
	var pid uint32
	// Simple protocol: behind a pooler another mode could fail before it is known.
	err := conn.QueryRow(ctx, `SELECT pg_backend_pid(), current_database(), current_user,
		coalesce(current_schema(), ''), pg_is_in_recovery()`, pgx.QueryExecModeSimpleProtocol).
		Scan(&pid, &p.database, &p.role, &p.schema, &p.standby)
	switch {
	case err != nil:
		return p, err
	// The server that answers is not the one that was dialled.
	case pid != conn.PgConn().PID():
		return p, errors.New("the connection goes through a transaction pooler, which would share the migrator's lock with others; use a direct one")
	case p.schema == "":
		return p, fmt.Errorf("role %s: no schema of its search_path exists, and the version table %s needs one", p.role, Table)
	}
	return p, nil
}

// prepare makes the version table, unless the schema was installed under
// another one. The migrators' lock is held.
func (p place) prepare(ctx context.Context, conn *pgx.Conn, table string) error {
	var exists, installed bool
	var others string
	err := conn.QueryRow(ctx, `
		WITH tables AS (
			SELECT n.nspname AS schema, c.relname AS name FROM pg_catalog.pg_class c
			  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r')
		SELECT EXISTS (SELECT FROM tables WHERE schema = $1 AND name = $2),
		       EXISTS (SELECT FROM tables WHERE schema = 'pgcoord' AND name = 'cluster'),
		       coalesce((SELECT string_agg(quote_ident(schema), ', ') FROM tables WHERE schema <> $1 AND name = $2), 'no schema')`,
		pgx.QueryExecModeExec, p.schema, Table).Scan(&exists, &installed, &others)
	switch {
	case err != nil:
		return err
	case exists:
		return nil
	case installed:
		return fmt.Errorf("schema pgcoord is installed, but role %s looks for its version table %s in schema %s, and it is in %s: set search_path as it was when it was installed",
			p.role, Table, p.schema, others)
	case p.standby:
		return errStandby
	}
	// As the migrate command makes it.
	_, err = conn.Exec(ctx, "CREATE TABLE "+table+" (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)")
	if code(err) == insufficientPrivilege {
		return fmt.Errorf("role %s may not create the version table %s in schema %s; grant it CREATE there, or put a schema first in its search_path that it may create in: %w",
			p.role, Table, p.schema, err)
	}
	return err
}

// The SQLSTATEs for which there is a cure to name.
const (
	insufficientPrivilege = "42501"
	lockNotAvailable      = "55P03"
	readOnly              = "25006"
)

var errStandby = errors.New("the server is a standby; connect to the primary")

// describe puts the cure before an error of a migration.
func describe(err error, p place) error {
	if err != nil && p.standby {
		return fmt.Errorf("%w: %w", errStandby, err)
	}
	switch code(err) {
	case insufficientPrivilege:
		return fmt.Errorf("role %s lacks a privilege: it needs CREATE on database %s, and must own the schema pgcoord and the version table once they exist: %w",
			p.role, p.database, err)
	case lockNotAvailable:
		return fmt.Errorf("tables are in use and could not be locked within %s; nothing was changed by this step, call again: %w", lockLimit, err)
	case readOnly:
		return fmt.Errorf("the connection is read-only: %w", err)
	}
	return err
}

func code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}
