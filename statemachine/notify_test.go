package statemachine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// arrived returns the channels on which conn heard something, by the time a last
// notification is through.
func arrived(t *testing.T, pool *pgxpool.Pool, conn *pgx.Conn) []string {
	t.Helper()
	exec(t, pool, "NOTIFY chan, 'last'")
	var all []string
	for {
		n, err := conn.WaitForNotification(within(t, 10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload == "last" {
			return all
		}
		all = append(all, n.Channel)
	}
}

func TestNotifyTellsWaitersOfWork(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	pool := pgtest.Pool(t, dsn)
	m := define(t, orders())
	create(t, pool, m, everything(m, "bigint"))
	conn, err := pgx.Connect(within(t, 10*time.Second), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(within(t, 10*time.Second))
	exec(t, conn, "LISTEN chan; LISTEN other")
	exec(t, pool, `INSERT INTO pgcoord.machine_waiters (machine, key, channel, deadline)
		VALUES ($1, '', 'chan', 'infinity')`, m.Name())
	exec(t, pool, `INSERT INTO pgcoord.machine_waiters (machine, key, channel, deadline)
		VALUES ($1, '', 'other', 'infinity')`, m.Name())
	for _, step := range []struct {
		sql  string
		want []string
	}{
		{"INSERT INTO orders (id) VALUES (1)", []string{"chan"}},
		{"INSERT INTO orders (id) VALUES (2), (3)", []string{"chan", "other"}},
		{"INSERT INTO orders (id) SELECT 4 WHERE false", nil},
		{"UPDATE orders SET status = 'PENDING'", nil},
		{"UPDATE orders SET status = 'PROCESSING'", nil},
		{"UPDATE orders SET status = 'PENDING' WHERE id = 1", []string{"chan"}},
		{"BEGIN; UPDATE orders SET status = 'PENDING' WHERE id = 2; ROLLBACK", nil},
	} {
		exec(t, pool, step.sql)
		if got := arrived(t, pool, conn); !slices.Equal(got, step.want) {
			t.Errorf("%s: heard %q, want %q", step.sql, got, step.want)
		}
	}
}

// A writer that knows nothing of pgcoord must not fail for the sake of a wake-up.
func TestNotifyNeverMakesAWriterFail(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	pool := pgtest.Pool(t, dsn)
	m := define(t, orders())
	create(t, pool, m, everything(m, "bigint"))
	role := pgtest.NewRole(t, dsn)
	exec(t, pool, "GRANT SELECT, INSERT, UPDATE ON orders TO "+role.Name)
	stranger := pgtest.Pool(t, dsn, role.Login)
	write := func() {
		exec(t, stranger, "INSERT INTO orders (id) SELECT coalesce(max(id), 0) + 1 FROM orders")
		exec(t, stranger, "UPDATE orders SET status = 'PROCESSING' WHERE status = 'PENDING'")
		exec(t, stranger, "UPDATE orders SET status = 'PENDING' WHERE status = 'PROCESSING'")
	}
	write()
	exec(t, pool, "DROP FUNCTION pgcoord.wake_machine(text, text, int)")
	write()
	exec(t, pool, "GRANT ALL ON SCHEMA pgcoord TO "+role.Name)
	write()
	exec(t, pool, "DROP SCHEMA pgcoord CASCADE")
	write()
	if n := scan[int](t, pool, "SELECT count(*)::int FROM orders WHERE status = 'PENDING'"); n != 4 {
		t.Errorf("%d rows, want 4", n)
	}
}
