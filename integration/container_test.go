package integration

import (
	"os"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // for wait.ForSQL
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

// The way most users meet PostgreSQL in their tests.
func TestContainer(t *testing.T) {
	image := os.Getenv(localpg.EnvImage)
	if image == "" {
		image = "postgres:17"
	}
	ctx := bounded(t, startLimit)
	ready := wait.ForSQL("5432/tcp", "pgx", func(host string, port network.Port) string {
		return "postgres://app:secret@" + host + ":" + port.Port() + "/orders?sslmode=disable"
	})
	container, err := postgres.Run(ctx, image,
		postgres.WithDatabase("orders"), postgres.WithUsername("app"), postgres.WithPassword("secret"),
		testcontainers.WithWaitStrategyAndDeadline(time.Minute, ready))
	testcontainers.CleanupContainer(t, container)
	if err != nil {
		t.Fatal(err)
	}
	dsn, err := container.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	pool := pgtest.Pool(t, dsn)
	if err := migrations.Up(ctx, pool); err != nil {
		t.Fatal(err)
	}
	runJobs(t, pool)
	if err := migrations.Down(ctx, pool); err != nil {
		t.Fatal(err)
	}
}
