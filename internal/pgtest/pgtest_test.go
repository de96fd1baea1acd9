package pgtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds what must happen.
const patience = 10 * time.Second

func ask[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (answer T) {
	t.Helper()
	if err := pool.QueryRow(context.Background(), sql, args...).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// databaseOf returns the name in a DSN.
func databaseOf(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

const migrated = "SELECT to_regclass('pgcoord.task_locks') IS NOT NULL"

func TestDatabases(t *testing.T) {
	server := pgtest.Server(t)
	admin := pgtest.Pool(t, server.DSN("postgres"))
	names := map[string]bool{}
	t.Run("of a Test with ünusual/name", func(t *testing.T) {
		for range 3 {
			for want, create := range map[bool]func(testing.TB) string{true: pgtest.DSN, false: pgtest.EmptyDSN} {
				dsn := create(t)
				pool := pgtest.Pool(t, dsn)
				if got := ask[bool](t, pool, migrated); got != want {
					t.Errorf("%s: migrated is %v, want %v", dsn, got, want)
				}
				name := ask[string](t, pool, "SELECT current_database()")
				if names[name] || name != databaseOf(t, dsn) {
					t.Errorf("%s: database %s", dsn, name)
				}
				names[name] = true
			}
		}
	})
	for name := range names {
		if ask[bool](t, admin, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name) {
			t.Errorf("%s outlived its test", name)
		}
	}
}

func TestDatabasesAtOnce(t *testing.T) {
	for range 8 {
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			if !ask[bool](t, pgtest.Pool(t, pgtest.DSN(t)), migrated) {
				t.Error("not migrated")
			}
		})
	}
}

func TestSharedServer(t *testing.T) {
	server := pgtest.Server(t)
	if again := pgtest.Server(t); again != server {
		t.Error("a second shared server")
	}
	if server.Kind() == localpg.KindURL {
		return // its settings are its own
	}
	want := "off"
	if os.Getenv(pgtest.EnvFsync) == "on" {
		want = "on"
	}
	if got := ask[string](t, pgtest.Pool(t, pgtest.EmptyDSN(t)), "SHOW fsync"); got != want {
		t.Errorf("fsync is %s, want %s", got, want)
	}
}

func TestDedicated(t *testing.T) {
	server := pgtest.Dedicated(t, localpg.Options{Settings: map[string]string{"max_connections": "20"}})
	if server == pgtest.Server(t) {
		t.Fatal("the shared server")
	}
	pool := pgtest.Pool(t, pgtest.DSNOn(t, server))
	if !ask[bool](t, pool, migrated) || ask[string](t, pool, "SHOW max_connections") != "20" || ask[string](t, pool, "SHOW fsync") != "on" {
		t.Error("not what was asked for")
	}
	if err := server.Restart(t.Context(), localpg.Kill); err != nil {
		t.Fatal(err)
	}
	pool.Reset()
	if !ask[bool](t, pool, migrated) {
		t.Error("the database was lost")
	}
}

func TestPoolChange(t *testing.T) {
	pool := pgtest.Pool(t, pgtest.EmptyDSN(t), func(c *pgxpool.Config) { c.MaxConns = 3 },
		func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "changed" })
	if got := ask[string](t, pool, "SHOW application_name"); got != "changed" || pool.Config().MaxConns != 3 {
		t.Errorf("application_name %s, MaxConns %d", got, pool.Config().MaxConns)
	}
}

func TestEventually(t *testing.T) {
	calls := 0
	pgtest.Eventually(t, patience, "the third call", func() bool { calls++; return calls == 3 })
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}

func TestLogErrors(t *testing.T) {
	dsn, other := pgtest.DSN(t), pgtest.DSN(t)
	pool, otherPool := pgtest.Pool(t, dsn), pgtest.Pool(t, other)
	var pgErr *pgconn.PgError
	if _, err := otherPool.Exec(t.Context(), "SELECT other_error"); !errors.As(err, &pgErr) {
		t.Fatal(err)
	}
	if got := pgtest.LogErrors(t, dsn); len(got) != 0 {
		t.Fatalf("errors of another database: %q", got)
	}
	if _, err := pool.Exec(t.Context(), "SELECT\n1/0"); !errors.As(err, &pgErr) {
		t.Fatal(err)
	}
	ask[int](t, pool, "SELECT 1")
	if pgtest.Server(t).Kind() == localpg.KindURL {
		return // its log cannot be read
	}
	for name, way := range map[string]string{"direct": dsn, "through a proxy": pgtest.Proxy(t, dsn).DSN(dsn)} {
		got := pgtest.LogErrors(t, way)
		if len(got) != 1 || !strings.Contains(got[0], "state=22012 ERROR:  ") || !strings.Contains(got[0], "STATEMENT:  SELECT\n\t1/0") {
			t.Errorf("%s: got %q, want the division by zero with its statement", name, got)
		}
	}
}

func TestLogErrorsOfADedicatedServer(t *testing.T) {
	dsn := pgtest.DSNOn(t, pgtest.Dedicated(t, localpg.Options{}))
	var pgErr *pgconn.PgError
	if _, err := pgtest.Pool(t, dsn).Exec(t.Context(), "SELECT 1/0"); !errors.As(err, &pgErr) {
		t.Fatal(err)
	}
	if got := pgtest.LogErrors(t, dsn); len(got) != 1 {
		t.Errorf("got %q, want one error", got)
	}
}

// recorder stands in for a test that is to fail.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func TestEventuallyFails(t *testing.T) {
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pgtest.Eventually(r, time.Millisecond, "the impossible", func() bool { return false })
	}()
	<-ended
	if len(r.said) != 1 || !strings.Contains(r.said[0], "the impossible") {
		t.Errorf("said %q", r.said)
	}
}

// TestURL runs other tests of this binary again on a server that was there
// before, and looks what they left on it.
func TestURL(t *testing.T) {
	server := pgtest.Dedicated(t, localpg.Options{})
	cmd := exec.Command(os.Args[0], "-test.run=^(TestDatabases|TestSharedServer|TestLogErrors|TestDedicated)$", "-test.v")
	cmd.Env = append(os.Environ(), localpg.EnvURL+"="+server.DSN("postgres"), localpg.EnvKind+"="+localpg.KindURL)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestLogErrors") {
		t.Fatalf("%v\n%s", err, out)
	}
	pool := pgtest.Pool(t, server.DSN("postgres"))
	if left := ask[int](t, pool, "SELECT count(*) FROM pg_database WHERE datname LIKE 't\\_%'"); left != 0 {
		t.Errorf("%d databases left on the server", left)
	}
	if used := ask[int](t, pool, "SELECT count(*) FROM pg_stat_database WHERE datname = 'postgres' AND xact_commit > 10"); used != 1 {
		t.Error("the server was not used")
	}
}
