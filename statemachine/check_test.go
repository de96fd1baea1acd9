package statemachine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// What a first grant looks at is what claims rest on, and no more.
func TestCheckRefusesWhatIsFatal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	m, err := Define(Definition{Table: "orders", Initial: []State{"a"}, Transitions: []Transition{{"a", "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	ddl, err := m.DDL(DDLOptions{KeyTypes: []string{"bigint"}, Trigger: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ sql, word string }{
		{"DROP TABLE IF EXISTS orders", "no table orders"},
		{ddl, ""},
		{"ALTER TABLE orders DISABLE TRIGGER ALL; ALTER TABLE orders DROP CONSTRAINT orders_status_states; INSERT INTO orders VALUES (1, 'stray')", ""},
		{"ALTER TABLE orders ADD CONSTRAINT narrow CHECK (status = 'a') NOT VALID", `refuses the declared state "b"; mend it: ALTER TABLE "orders"`},
		{"ALTER TABLE orders DROP CONSTRAINT narrow; ALTER TABLE orders ALTER fencing_token DROP NOT NULL", "allows NULL; NULL fences nobody; mend it"},
		{"ALTER TABLE orders ALTER fencing_token SET NOT NULL, ALTER status DROP NOT NULL", "NULL is no state"},
		{"ALTER TABLE orders ALTER status SET NOT NULL; ALTER TABLE orders SET UNLOGGED", "not logged"},
		{"ALTER TABLE orders SET LOGGED; ALTER TABLE orders DROP CONSTRAINT orders_pkey", "covers the key"},
		{"CREATE UNIQUE INDEX ON orders (id)", ""},
	} {
		if _, err := conn.Exec(ctx, c.sql); err != nil {
			t.Fatalf("%s: %v", c.sql, err)
		}
		err := m.check(ctx, conn)
		if (err == nil) != (c.word == "") || err != nil && !strings.Contains(err.Error(), c.word) {
			t.Errorf("after %s: %v, want one that says %q", c.sql, err, c.word)
		}
	}
}

// A large table must not delay the first grant.
func TestCheckReadsNoRow(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	m, err := Define(Definition{Table: "orders", Initial: []State{"a"}, Transitions: []Transition{{"a", "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	ddl, err := m.DDL(DDLOptions{KeyTypes: []string{"bigint"}, Claimable: []State{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, ddl+"INSERT INTO orders SELECT n FROM generate_series(1, 10) n"); err != nil {
		t.Fatal(err)
	}
	// Reading the table would open it; whoever opens it has a lock on it.
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	locks := func() (n int) {
		t.Helper()
		err := tx.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'orders'::regclass").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := m.check(ctx, tx); err != nil {
		t.Fatal(err)
	}
	if n := locks(); n != 0 {
		t.Errorf("check has %d locks on the table", n)
	}
	if _, err := m.Verify(ctx, tx, DDLOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := locks(); n == 0 {
		t.Error("Verify has no lock on the table: the test sees nothing")
	}
}
