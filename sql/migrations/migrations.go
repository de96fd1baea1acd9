// Package migrations holds pgcoord's schema as golang-migrate files and applies
// them.
//
// Everything the files make is in the schema pgcoord. The one object outside is
// the table that records the version, [Table], in the first schema of the
// connection's search_path: the migrator needs it before the schema exists. It
// is not golang-migrate's default table, which belongs to the application's own
// migrations.
//
// The migrator serialises itself by a session advisory lock, so it needs a
// direct connection and refuses one through a transaction pooler.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/golang-migrate/migrate/v4"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// Table is the name of the table that records the version of the schema. Give
// it to the migrate command as x-migrations-table.
const Table = "pgcoord_schema_migrations"

// FS holds the files, named as golang-migrate wants them.
//
//go:embed *.sql
var FS embed.FS

// Up brings the schema to the newest version, on a connection of its own made
// from pool's configuration. It does nothing when it is there already, and two
// processes may call it at once.
//
// It fails when the role may not create the schema or the version table, or
// when the connection goes through a transaction pooler.
//
// After a failure the schema is at some earlier version; Up may be called again.
func Up(ctx context.Context, pool *pgxpool.Pool) error {
	return apply(ctx, pool, "up", (*migrate.Migrate).Up)
}

// Down takes the schema away, with every claim, token and operation in it.
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
	config := pool.Config().ConnConfig
	if err := refusePooler(ctx, config); err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	driver, err := migratepgx.WithInstance(db, &migratepgx.Config{MigrationsTable: Table})
	if err != nil {
		return fmt.Errorf("version table %s in the first schema of search_path: %w", Table, err)
	}
	source, err := iofs.New(FS, ".")
	if err != nil {
		_ = driver.Close()
		return err
	}
	m, err := migrate.NewWithInstance("embed", source, "pgx5", driver)
	if err != nil {
		_ = driver.Close()
		return err
	}
	defer func() {
		sourceErr, dbErr := m.Close()
		err = errors.Join(err, sourceErr, dbErr)
	}()
	stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
	defer stop()
	if err := run(m); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	return ctx.Err()
}

// refusePooler fails when the server that answers is not the one that was
// dialled: the advisory lock would be taken by a session that others share.
func refusePooler(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return errors.New("the connection goes through a transaction pooler; use a direct one")
	}
	return nil
}
