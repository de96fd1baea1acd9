package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

func TestStandby(t *testing.T) {
	t.Parallel()
	primary := pgtest.Dedicated(t, localpg.Options{InMemory: true})
	migrated := pgtest.DSNOn(t, primary)
	standby, err := primary.Standby(bounded(t), localpg.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	config, err := pgx.ParseConfig(migrated)
	if err != nil {
		t.Fatal(err)
	}

	mentions(t, migrations.Up(bounded(t), pgtest.Pool(t, standby.DSN("postgres"))), "standby")
	pool := pgtest.Pool(t, standby.DSN(config.Database))
	if err := migrations.Up(bounded(t), pool); err != nil {
		t.Errorf("up with nothing to do: %v", err)
	}
	mentions(t, migrations.Down(bounded(t), pool), "standby")
}
