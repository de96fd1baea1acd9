package migrations_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

// command is the migrator as the migrate command runs it, with its own driver.
func command(t *testing.T, dsn string) (*migrate.Migrate, database.Driver) {
	t.Helper()
	db, err := sql.Open("pgx/v5", dsn)
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	// The command's database name is the path of its URL.
	driver, err := migratepgx.WithInstance(db, &migratepgx.Config{MigrationsTable: migrations.Table, DatabaseName: "/" + config.Database})
	if err != nil {
		t.Fatal(err)
	}
	source, err := iofs.New(migrations.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("embed", source, "pgx5", driver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Close()); err != nil {
			t.Error(err)
		}
	})
	return m, driver
}

var _ = stdlib.GetDefaultDriver // registers pgx/v5 for sql.Open

// Up and the migrate command continue each other's work.
func TestUpAndTheMigrateCommandShareTheVersion(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDSN(t)
	pool := pgtest.Pool(t, dsn)
	m, _ := command(t, dsn)
	if err := m.Steps(1); err != nil {
		t.Fatal(err)
	}
	up(t, pool)
	if err := m.Up(); !errors.Is(err, migrate.ErrNoChange) {
		t.Errorf("the command after Up: %v, want no change", err)
	}
	if err := m.Steps(-1); err != nil {
		t.Error(err)
	}
	if got := version(t, pool); got != newest(t)-1 {
		t.Errorf("version %d, want %d", got, newest(t)-1)
	}
	down(t, pool)
	if _, _, err := m.Version(); !errors.Is(err, migrate.ErrNilVersion) {
		t.Errorf("the command's version after Down: %v, want none", err)
	}
}

// A failure of the command leaves a mark that is for a person to look at.
func TestDirtyVersionIsExplained(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDSN(t)
	pool := pgtest.Pool(t, dsn)
	exec(t, pool, "CREATE SCHEMA pgcoord; CREATE TABLE pgcoord.cluster (n int)")
	m, _ := command(t, dsn)
	if err := m.Up(); err == nil {
		t.Fatal("the command ran with a table in the way")
	}
	err := migrations.Up(bounded(t), pool)
	var dirty migrate.ErrDirty
	if !errors.As(err, &dirty) || dirty.Version != 1 {
		t.Fatalf("up after it: %v, want a dirty version 1", err)
	}
	mentions(t, err, migrations.Table, "force")
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.DSN(t))
	exec(t, pool, "UPDATE "+migrations.Table+" SET version = 999")
	mentions(t, migrations.Up(bounded(t), pool), "newer")
	mentions(t, migrations.Down(bounded(t), pool), "newer")
	if got := version(t, pool); got != 999 {
		t.Errorf("version %d, want it untouched", got)
	}
}
