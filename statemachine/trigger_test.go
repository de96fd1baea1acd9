package statemachine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/statemachine"
)

// undeclared runs sql, which the trigger must refuse, with the words in its answer.
func undeclared(t *testing.T, pool *pgxpool.Pool, sql string, words ...string) {
	t.Helper()
	_, err := pool.Exec(within(t, 10*time.Second), sql)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != pgerr.Undeclared {
		t.Errorf("%s: %v, want SQLSTATE %s", sql, err, pgerr.Undeclared)
		return
	}
	if !errors.Is(pgerr.Describe("test", "", err), pgcoord.ErrConflict) {
		t.Errorf("%s: does not match ErrConflict", sql)
	}
	text := strings.Join([]string{pgErr.Message, pgErr.Detail, pgErr.TableName, pgErr.ColumnName}, "; ")
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s: refused with %q, which does not say %q", sql, text, word)
		}
	}
}

// Case M10.
func TestTheDatabaseRefusesWhatIsNotDeclared(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	m := define(t, orders())
	create(t, pool, m, statemachine.DDLOptions{KeyTypes: []string{"bigint"}, Trigger: true})
	exec(t, pool, "INSERT INTO orders (id) VALUES (1), (2), (3); ALTER TABLE orders ALTER fencing_token DROP NOT NULL")

	undeclared(t, pool, "INSERT INTO orders (id, status) VALUES (9, 'DONE')", "orders is not born in state 'DONE'", "key 9", "status")
	undeclared(t, pool, "INSERT INTO orders (id, status) VALUES (9, 'PENDING'), (10, 'FAILED')", "key 10")
	undeclared(t, pool, "INSERT INTO orders (id, fencing_token) VALUES (9, NULL)", "fencing token", "NULL")
	undeclared(t, pool, "UPDATE orders SET status = 'DONE' WHERE id = 1", "from state 'PENDING' to 'DONE'", "key 1")
	exec(t, pool, "UPDATE orders SET status = 'PROCESSING', fencing_token = 5 WHERE id = 1")
	undeclared(t, pool, "UPDATE orders SET fencing_token = 4 WHERE id = 1", "from '5' to '4'", "key 1", "fencing_token")
	undeclared(t, pool, "UPDATE orders SET fencing_token = NULL WHERE id = 1", "'5' to NULL")
	undeclared(t, pool, "UPDATE orders SET status = 'DONE', fencing_token = 0 WHERE id = 1", "fencing token")
	exec(t, pool, "UPDATE orders SET status = 'DONE' WHERE id = 1")
	undeclared(t, pool, "UPDATE orders SET status = 'PENDING' WHERE id = 1", "from state 'DONE' to 'PENDING'")
	// One bad row undoes the statement.
	undeclared(t, pool, "UPDATE orders SET status = 'PROCESSING'", "'DONE' to 'PROCESSING'")
	undeclared(t, pool, "INSERT INTO orders (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET status = 'PENDING'", "'DONE' to 'PENDING'")
	// Neither a replica's role nor a trigger of the user's passes it by.
	undeclared(t, pool, "SET LOCAL session_replication_role = replica; UPDATE orders SET status = 'PENDING' WHERE id = 1")
	exec(t, pool, `CREATE FUNCTION sly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.status := 'DONE'; RETURN NEW; END $$;
		CREATE TRIGGER zz_sly BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION sly()`)
	undeclared(t, pool, "UPDATE orders SET status = 'PROCESSING' WHERE id = 2", "'PENDING' to 'DONE'")
	exec(t, pool, "DROP TRIGGER zz_sly ON orders")

	if got := scan[string](t, pool, "SELECT string_agg(id || status || fencing_token, ',' ORDER BY id) FROM orders"); got != "1DONE5,2PENDING0,3PENDING0" {
		t.Errorf("rows are %s", got)
	}
	// What changes neither state nor token is none of its business.
	exec(t, pool, "UPDATE orders SET id = id, status = status, fencing_token = fencing_token + 1")
}

func TestTheDatabaseWalksEveryPath(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	for _, d := range []statemachine.Definition{orders(), hostileStates(), dense(5)} {
		m := define(t, d)
		create(t, pool, m, everything(m, "bigint"))
		table := d.Table
		for id, path := range m.Paths(100) {
			exec(t, pool, "INSERT INTO "+table+" (id, status) VALUES ($1, $2)", id, path[0])
			for i, to := range path[1:] {
				changed := scan[int64](t, pool, "UPDATE "+table+" SET status = $3 WHERE id = $1 AND status = $2 RETURNING 1::bigint", id, path[i], to)
				if changed != 1 {
					t.Fatalf("%s: %q to %q", m.Name(), path[i], to)
				}
			}
		}
		// No other edge and no other birth passes.
		for _, from := range m.States() {
			for _, to := range m.States() {
				if from == to || m.Allows(from, to) {
					continue
				}
				tag, err := pool.Exec(within(t, 5*time.Second), "UPDATE "+table+" SET status = $2 WHERE id = (SELECT min(id) FROM "+table+" WHERE status = $1)", from, to)
				if tag.RowsAffected() == 0 && err == nil {
					continue // no path ends there
				}
				if pgerr.Code(err) != pgerr.Undeclared {
					t.Errorf("%s: %q to %q: %v", m.Name(), from, to, err)
				}
			}
		}
	}
}

// The guard costs nothing where it has nothing to say, and holds on partitions.
func TestTheDatabaseGuardsPartitions(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	exec(t, pool, `CREATE TABLE orders (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
		CREATE TABLE orders_low PARTITION OF orders FOR VALUES FROM (0) TO (100)`)
	m := define(t, orders())
	create(t, pool, m, everything(m, "bigint"))
	create(t, pool, m, everything(m, "bigint"))
	exec(t, pool, "CREATE TABLE orders_high PARTITION OF orders FOR VALUES FROM (100) TO (200)")
	exec(t, pool, "INSERT INTO orders (id) VALUES (1), (101)")
	for _, table := range []string{"orders", "orders_low", "orders_high"} {
		undeclared(t, pool, "UPDATE "+table+" SET status = 'DONE'")
		undeclared(t, pool, "SET LOCAL session_replication_role = replica; UPDATE "+table+" SET status = 'DONE'")
	}
	exec(t, pool, m.UndoDDL())
	exec(t, pool, "UPDATE orders SET status = 'DONE'")
}
