package conformance

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// groundChecks prove S15: where the ground is not sound, nothing is granted, and
// the error names the cure.
var groundChecks = []check{
	{clause: "S15", name: "missing_schema", run: missingSchema},
	{clause: "S15", name: "read_only_session", run: readOnlySession},
	{clause: "S15", name: "standby", run: onStandby, server: busyServer},
	{clause: "S15", name: "tampered_schema", run: tamperedSchema},
	{clause: "S15", name: "no_pool", run: noPool},
}

// grantsNothing opens a coordinator on dsn and proves that neither verb grants.
func (w *world) grantsNothing(dsn, key, cure string, params map[string]string) {
	w.Helper()
	pool := pgtest.Pool(w, dsn, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = w.name + " bad ground"
		for name, value := range params {
			c.ConnConfig.RuntimeParams[name] = value
		}
	})
	c, err := w.strategy.New(pool, setup{}.tuning("on bad ground"))
	if err != nil {
		w.names(err, cure)
		return
	}
	defer func() { w.must(c.Close(w.ctx), "Close") }()
	_, err = c.TryAcquire(w.ctx, key)
	w.refused(err, "TryAcquire")
	w.names(err, cure)
	_, err = c.Acquire(w.within(patience/4), key)
	w.refused(err, "Acquire")
	w.names(err, cure)
}

func (w *world) names(err error, cure string) {
	w.Helper()
	if !strings.Contains(err.Error(), cure) {
		w.Fatalf("the error does not name the cure %q: %v", cure, err)
	}
}

func missingSchema(w *world) {
	w.grantsNothing(pgtest.EmptyDSN(w), "k", "migrations", nil)
}

func readOnlySession(w *world) { // 37
	key := w.key("k")
	w.grantsNothing(w.dsn, key, "read-only", map[string]string{"default_transaction_read_only": "on"})
	w.grantsNothing(w.dsn, key, "read-only", map[string]string{
		"default_transaction_read_only": "on", "default_transaction_isolation": "serializable",
	})
	w.release(w.node(setup{}).try(key))
}

func onStandby(w *world) { // 37
	key := w.key("k")
	standby, err := w.server.Standby(w.ctx, localpg.Options{Settings: busyServer})
	if errors.Is(err, localpg.ErrForeign) {
		w.Skip("a standby needs a PostgreSQL from local binaries: " + err.Error())
	}
	w.must(err, "start a standby")
	w.Cleanup(func() { _ = standby.Stop() })
	w.reconnected()
	dsn := standby.DSN(w.admin.Config().ConnConfig.Database)
	looking := pgtest.Pool(w, dsn)
	pgtest.Eventually(w, patience, "the standby has the key", func() bool {
		var there bool
		err := looking.QueryRow(w.ctx, "SELECT EXISTS (SELECT FROM ledger.counters WHERE key = $1)", key).Scan(&there)
		return err == nil && there
	})
	w.grantsNothing(dsn, key, "read-only", nil)
}

func tamperedSchema(w *world) { // 38
	for _, tamper := range w.strategy.Tampers {
		w.Run(tamper.Name, func(t *testing.T) {
			bad := newWorld(t, w.name, newDatabase(t, w.strategy, pgtest.DSN(t)))
			key := bad.key("k")
			bad.exec(tamper.SQL)
			bad.grantsNothing(bad.dsn, key, tamper.Cure, nil)
		})
	}
}

func noPool(w *world) {
	c, err := w.strategy.New(nil, setup{}.tuning("without a pool"))
	if err == nil {
		w.Fatalf("New without a pool: got %v and no error", c)
	}
}
