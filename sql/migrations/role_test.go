package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

// mentions fails unless err is one whose text has all the words.
func mentions(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that mentions %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not mention %q", err, word)
		}
	}
}

// closedPublic makes an empty database with public closed, as it is since
// PostgreSQL 15, and a role in it. Cleanup runs in reverse order: the role's
// objects go before the database does.
func closedPublic(t *testing.T) (admin *pgxpool.Pool, dsn string, role pgtest.Role, database string) {
	t.Helper()
	dsn = pgtest.EmptyDSN(t)
	role = pgtest.NewRole(t, dsn)
	admin = pgtest.Pool(t, dsn)
	exec(t, admin, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	return admin, dsn, role, value[string](t, admin, "SELECT current_database()")
}

func TestOrdinaryRoleWithNowhereForTheVersion(t *testing.T) {
	t.Parallel()
	admin, dsn, role, database := closedPublic(t)
	exec(t, admin, "GRANT CREATE ON DATABASE "+database+" TO "+role.Name)
	before := objects(t, admin)

	err := migrations.Up(bounded(t), pgtest.Pool(t, dsn, role.Login))
	if code(err) != "42501" {
		t.Fatalf("up: %v, want 42501", err)
	}
	mentions(t, err, migrations.Table, role.Name, "schema public", "search_path")
	if after := objects(t, admin); len(after) != len(before) {
		t.Errorf("the refused up changed the database: %v", after)
	}

	// The cure of docs/operations.md, by the role itself.
	exec(t, pgtest.Pool(t, dsn, role.Login), "CREATE SCHEMA AUTHORIZATION "+role.Name)
	pool := pgtest.Pool(t, dsn, role.Login)
	up(t, pool)
	if got := value[string](t, pool, "SELECT schemaname FROM pg_tables WHERE tablename = $1", migrations.Table); got != role.Name {
		t.Errorf("the version table is in schema %s, want %s", got, role.Name)
	}
	down(t, pool)
}

func TestOrdinaryRoleWithASearchPath(t *testing.T) {
	t.Parallel()
	admin, dsn, role, database := closedPublic(t)
	exec(t, admin, "GRANT CREATE ON DATABASE "+database+" TO "+role.Name)
	exec(t, admin, `CREATE SCHEMA "Odd name" AUTHORIZATION `+role.Name)
	pool := pgtest.Pool(t, dsn, role.Login, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = `"Odd name", public`
	})
	up(t, pool)
	up(t, pool)
	down(t, pool)
	up(t, pool)
}

func TestOrdinaryRoleThatMayNotCreateTheSchema(t *testing.T) {
	t.Parallel()
	admin, dsn, role, database := closedPublic(t)
	exec(t, admin, "CREATE SCHEMA AUTHORIZATION "+role.Name)
	pool := pgtest.Pool(t, dsn, role.Login)
	err := migrations.Up(bounded(t), pool)
	if code(err) != "42501" {
		t.Fatalf("up: %v, want 42501", err)
	}
	mentions(t, err, role.Name, "CREATE", database)

	exec(t, admin, "GRANT CREATE ON DATABASE "+database+" TO "+role.Name)
	up(t, pool)
}

// An administrator has made the schema; the role needs no grant on the database.
func TestOrdinaryRoleThatWasGivenTheSchema(t *testing.T) {
	t.Parallel()
	admin, dsn, role, _ := closedPublic(t)
	exec(t, admin, "CREATE SCHEMA AUTHORIZATION "+role.Name)
	exec(t, admin, "CREATE SCHEMA pgcoord AUTHORIZATION "+role.Name)
	up(t, pgtest.Pool(t, dsn, role.Login))
}

func TestSearchPathWithoutASchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.EmptyDSN(t), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = "nowhere"
	})
	mentions(t, migrations.Up(bounded(t), pool), migrations.Table, "search_path")
}

// A second version table would start from nothing.
func TestAnotherSearchPathThanBefore(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	admin := pgtest.Pool(t, dsn)
	exec(t, admin, "CREATE SCHEMA elsewhere")
	before := objects(t, admin)
	pool := pgtest.Pool(t, dsn, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = "elsewhere"
	})
	for _, run := range []func(*testing.T) error{
		func(t *testing.T) error { return migrations.Up(bounded(t), pool) },
		func(t *testing.T) error { return migrations.Down(bounded(t), pool) },
	} {
		mentions(t, run(t), migrations.Table, "schema elsewhere", "in public")
	}
	if after := objects(t, admin); len(after) != len(before) {
		t.Errorf("changed the database: %v", after)
	}
}

func TestReadOnlyConnection(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDSN(t)
	readOnly := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" }
	err := migrations.Up(bounded(t), pgtest.Pool(t, dsn, readOnly))
	if code(err) != "25006" {
		t.Fatalf("up: %v, want 25006", err)
	}
	mentions(t, err, "read-only")
	up(t, pgtest.Pool(t, dsn))
	up(t, pgtest.Pool(t, dsn, readOnly)) // nothing to do
}

// Settings that a role may come with.
func TestDefaultsOfTheRole(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.EmptyDSN(t), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		c.ConnConfig.RuntimeParams["default_transaction_deferrable"] = "on"
		c.ConnConfig.RuntimeParams["lock_timeout"] = "10s"
		c.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "5s"
	})
	up(t, pool)
	down(t, pool)
}
