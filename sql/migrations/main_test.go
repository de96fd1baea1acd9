package migrations_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// within bounds what must not hang.
const within = 20 * time.Second

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	t.Cleanup(cancel)
	return ctx
}

func up(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if err := migrations.Up(bounded(t), pool); err != nil {
		t.Fatal(err)
	}
}

func down(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if err := migrations.Down(bounded(t), pool); err != nil {
		t.Fatal(err)
	}
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func exec(t *testing.T, db execer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(bounded(t), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// column returns the one column of a query.
func column[T any](t *testing.T, db querier, sql string, args ...any) []T {
	t.Helper()
	rows, err := db.Query(bounded(t), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return values
}

// value returns the one value of a query.
func value[T any](t *testing.T, db querier, sql string, args ...any) T {
	t.Helper()
	values := column[T](t, db, sql, args...)
	if len(values) != 1 {
		t.Fatalf("%s: %d rows, want 1", sql, len(values))
	}
	return values[0]
}

func code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// version is what the version table says; -1 when it is empty.
func version(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return value[int](t, pool, "SELECT coalesce(max(CASE WHEN dirty THEN -2 ELSE version END), -1)::int FROM "+migrations.Table)
}

// begin opens a transaction on a connection of its own that cleanup ends.
func begin(t *testing.T, dsn string) pgx.Tx {
	t.Helper()
	conn, err := pgx.Connect(bounded(t), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the test may have ended it
	tx, err := conn.Begin(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	return tx
}
