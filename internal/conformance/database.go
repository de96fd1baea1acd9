package conformance

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// observer is the application name of the connections that only look.
const observer = "conformance observer"

// database is where checks take place.
type database struct {
	strategy Strategy
	dsn      string
	server   *localpg.Server // of the check's own; else nil
	admin    *pgxpool.Pool
}

// newDatabase prepares the database at dsn.
func newDatabase(t *testing.T, s Strategy, dsn string) *database {
	t.Helper()
	d := &database{strategy: s, dsn: dsn}
	d.admin = pgtest.Pool(t, dsn, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = observer
		c.MaxConns = 8
	})
	if _, err := d.admin.Exec(t.Context(), ledgerSchema); err != nil {
		t.Fatal(err)
	}
	if s.Seed != nil {
		if err := s.Seed(t.Context(), d.admin); err != nil {
			t.Fatalf("create the strategy's tables: %v", err)
		}
	}
	return d
}

// deserted proves S13: coordinators and pools that were closed have left no
// connection. Those looked at have an application name that begins with prefix.
func (d *database) deserted(t *testing.T, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pgtest.Eventually(t, slack, "no connection is left on the server", func() bool {
		var n int
		err := d.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name <> $1 AND starts_with(application_name, $2)`,
			observer, prefix).Scan(&n)
		return err == nil && n == 0
	})
}
