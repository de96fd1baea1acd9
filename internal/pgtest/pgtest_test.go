package pgtest_test

import (
	"testing"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestDSN(t *testing.T) {
	for range 2 {
		pool := pgtest.Pool(t, pgtest.DSN(t))
		var n int
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pgcoord.task_locks").Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(pgtest.Server(t))
}
