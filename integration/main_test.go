// Package integration holds the tests that need more than a PostgreSQL: Docker
// with testcontainers, and PgBouncer. It is a module of its own, because of what
// testcontainers brings. Nothing here is skipped: what is missing fails.
package integration

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// startLimit bounds what has to start first.
const startLimit = 2 * time.Minute

func bounded(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// answers reports whether a server takes a query at dsn.
func answers(t *testing.T, dsn string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return false
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx) == nil
}

// closeAtEnd ends a coordinator before its pool is closed.
func closeAtEnd(t *testing.T, c *uniquelock.Coordinator) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}
