package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

// DSN makes a database with the migrations applied and returns its URL. The
// database is dropped at cleanup.
func DSN(tb testing.TB) string {
	tb.Helper()
	server := Server(tb)
	return createDatabase(tb, server, shared.template)
}

// EmptyDSN makes a database without the migrations and returns its URL. The
// database is dropped at cleanup.
func EmptyDSN(tb testing.TB) string {
	tb.Helper()
	return createDatabase(tb, Server(tb), "template1")
}

// DSNOn makes a database with the migrations applied on a server of the test's
// own and returns its URL. It goes with the server.
func DSNOn(tb testing.TB, server *localpg.Server) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	name := databaseName(tb.Name())
	if err := run(ctx, server, "CREATE DATABASE "+name); err != nil {
		tb.Fatal(err)
	}
	if err := migrate(ctx, server.DSN(name)); err != nil {
		tb.Fatal(err)
	}
	return server.DSN(name)
}

func createDatabase(tb testing.TB, server *localpg.Server, template string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	name := databaseName(tb.Name())
	create := "CREATE DATABASE " + name + " TEMPLATE " + template
	if server.Major() >= 15 { // before, there was no other way
		create += " STRATEGY FILE_COPY" // half the time for create and drop together
	}
	if err := run(ctx, server, create); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		// FORCE: a connection that a test cut may not have ended on the server yet.
		if err := run(ctx, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	return server.DSN(name)
}

// createTemplate makes the database that the others are copied from.
func createTemplate(ctx context.Context, server *localpg.Server) (string, error) {
	name := databaseName("template")
	if err := run(ctx, server, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	if err := migrate(ctx, server.DSN(name)); err != nil {
		return "", err
	}
	// A database with a connection cannot be copied.
	if err := run(ctx, server, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false"); err != nil {
		return "", err
	}
	return name, nil
}

// dropTemplate leaves nothing behind on a server that goes on running.
func dropTemplate(server *localpg.Server, name string) error {
	if server.Kind() != localpg.KindURL {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	return run(ctx, server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
}

func migrate(ctx context.Context, dsn string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return fmt.Errorf("pgtest: migrate: %w", err)
	}
	defer pool.Close()
	return migrations.Up(ctx, pool)
}

// run executes one statement in the server's own database.
func run(ctx context.Context, server *localpg.Server, sql string) error {
	conn, err := pgx.Connect(ctx, server.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("pgtest: %s: %w", sql, err)
	}
	return nil
}

// databaseName returns a new name that needs no quotes and tells the test: the
// server may be shared with other test binaries.
func databaseName(test string) string {
	const longest = 40
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, test)
	if len(clean) > longest {
		clean = clean[len(clean)-longest:]
	}
	return "t_" + clean + "_" + strings.ToLower(rand.Text()[:10])
}
