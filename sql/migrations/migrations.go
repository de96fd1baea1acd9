// Package migrations holds pgcoord's schema as golang-migrate files and applies
// them.
//
// Everything the files make is in the schema pgcoord. The one object outside is
// the table that records the version, [Table], in the first schema of the
// connection's search_path: the migrator needs it before the schema exists. It
// is not golang-migrate's default table, which belongs to the application's own
// migrations.
//
// Migrators serialise themselves by a session advisory lock, so they need a
// direct connection and refuse one through a transaction pooler. The migrate
// command, given [Table] as x-migrations-table, takes the same lock.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Table is the name of the table that records the version of the schema. Give
// it to the migrate command as x-migrations-table.
const Table = "pgcoord_schema_migrations"

// FS holds the files, named as golang-migrate wants them.
//
//go:embed *.sql
var FS embed.FS

// Up brings the schema to the newest version, on a connection that it takes out
// of pool. It does nothing when it is there already, and two processes may call
// it at once: the second waits until ctx ends.
//
// It fails when the role may not create the schema or the version table, when
// tables are in use so that they cannot be changed within a few seconds, and
// when the connection goes through a transaction pooler or to a standby.
//
// After a failure the schema is at the version that the last whole file left;
// Up may be called again.
func Up(ctx context.Context, pool *pgxpool.Pool) error {
	return apply(ctx, pool, "up", (*migrate.Migrate).Up)
}

// Down takes the schema away, with every claim, token and operation in it. It
// leaves [Table], empty.
//
// It fails as Up does, and when something that is not pgcoord's depends on the
// schema or was put into it.
//
// Tokens start again afterwards: to install anew beside data that remembers old
// tokens, raise the epoch as docs/operations.md says.
func Down(ctx context.Context, pool *pgxpool.Pool) error {
	return apply(ctx, pool, "down", (*migrate.Migrate).Down)
}

func apply(ctx context.Context, pool *pgxpool.Pool, verb string, run func(*migrate.Migrate) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("pgcoord: migrate %s: %w", verb, err)
		}
	}()
	if pool == nil {
		return errors.New("pool is nil")
	}
	source, err := iofs.New(FS, ".")
	if err != nil {
		return err
	}
	d, err := connect(ctx, pool)
	if err != nil {
		return err
	}
	defer d.Close()
	m, err := migrate.NewWithInstance("embed", source, "pgcoord", d)
	if err != nil {
		return err
	}
	// How long to wait for another migrator is for ctx to say.
	m.LockTimeout = time.Duration(math.MaxInt64)
	return explain(ctx, run(m), d)
}

// explain gives the error of a run its cause and cure.
func explain(ctx context.Context, err error, d *driver) error {
	var dirty migrate.ErrDirty
	switch {
	case d.failure != nil:
		err = d.failure
	case errors.Is(err, migrate.ErrNoChange):
		return nil
	case errors.As(err, &dirty):
		return fmt.Errorf("the migrate command left %s marked dirty: find out whether version %d is in place, then run it with force and the version that is: %w",
			d.table, dirty.Version, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the schema is at a version that this library does not know; use the library that made it, or a newer one: %w", err)
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		return errors.Join(ctx.Err(), err)
	}
	return err
}
