package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// asApp migrates a database in which PUBLIC has nothing, not even the EXECUTE
// that PostgreSQL gives it by default, and returns pools of the superuser and
// of a role with the documented grants.
func asApp(t *testing.T) (admin, app *pgxpool.Pool) {
	t.Helper()
	dsn := pgtest.EmptyDSN(t)
	admin = pgtest.Pool(t, dsn)
	exec(t, admin, "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
	up(t, admin)
	return admin, pgtest.Pool(t, dsn, pgtest.DocumentedRole(t, dsn).Login)
}

func TestDocumentedGrantsCoverTheSchema(t *testing.T) {
	t.Parallel()
	_, app := asApp(t)
	for _, missing := range column[string](t, app, `
		SELECT 'USAGE on schema' WHERE NOT has_schema_privilege('pgcoord', 'USAGE')
		UNION ALL
		SELECT p || ' on ' || c.relname FROM pg_class c, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p
		 WHERE c.relnamespace = 'pgcoord'::regnamespace AND c.relkind IN ('r', 'v', 'm', 'p') AND NOT has_table_privilege(c.oid, p)
		UNION ALL
		SELECT p || ' on ' || c.relname FROM pg_class c, unnest(ARRAY['USAGE', 'SELECT']) p
		 WHERE c.relnamespace = 'pgcoord'::regnamespace AND CASE WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(c.oid, p) END
		UNION ALL
		SELECT 'EXECUTE on ' || f.oid::regprocedure FROM pg_proc f
		 WHERE f.pronamespace = 'pgcoord'::regnamespace AND NOT has_function_privilege(f.oid, 'EXECUTE')`) {
		t.Errorf("the documented grants lack %s", missing)
	}
}

// What a claim does in its life, in plain SQL.
func TestDocumentedGrantsSuffice(t *testing.T) {
	t.Parallel()
	_, app := asApp(t)
	exec(t, app, "INSERT INTO pgcoord.task_locks (task_name) VALUES ('k') ON CONFLICT DO NOTHING")
	token := value[int64](t, app, `
		WITH l AS MATERIALIZED (
			SELECT task_name, token FROM pgcoord.task_locks
			 WHERE task_name = 'k' AND expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED)
		UPDATE pgcoord.task_locks t
		   SET token = greatest(l.token + 1, pgcoord.next_fencing_token()), claim_id = 'c1', held = true,
		       expires_at = clock_timestamp() + interval '30 s'
		  FROM l WHERE t.task_name = l.task_name RETURNING t.token`)
	exec(t, app, "SELECT FROM pgcoord.task_locks WHERE task_name = 'k' AND token = $1 FOR KEY SHARE", token)
	exec(t, app, `INSERT INTO pgcoord.operations (domain, key, operation_id, token, applied)
		VALUES ('task_locks', 'k', 'op', $1, true)`, token)
	exec(t, app, "UPDATE pgcoord.task_locks SET expires_at = clock_timestamp() + interval '1 min' WHERE task_name = 'k'")
	exec(t, app, `INSERT INTO pgcoord.task_waiters (task_name, slot_id, channel, holder, deadline)
		VALUES ('k', 'c2', 'chan', 'h2', 'infinity')`)
	if got := value[string](t, app, "SELECT key || ' ' || waiters FROM pgcoord.held"); got != "k 1" {
		t.Errorf("held reads %q", got)
	}
	if got := value[string](t, app, "SELECT pgcoord.pass_task('k', $1, 'c1', interval '5 s', false)", token); got != "handed" {
		t.Errorf("pass_task: %q, want handed", got)
	}
	next := value[int64](t, app, "SELECT token FROM pgcoord.task_locks WHERE task_name = 'k' AND claim_id = 'c2'")
	if next <= token {
		t.Errorf("token %d after %d", next, token)
	}
	exec(t, app, "SELECT pgcoord.complete_task('k', $1, 'c2', true)", next)
	exec(t, app, "DELETE FROM pgcoord.task_locks; DELETE FROM pgcoord.task_waiters; DELETE FROM pgcoord.operations")
	exec(t, app, "SELECT last_value FROM pgcoord.fencing_token_seq")
}

// What an attempt and a transition write, in plain SQL.
func TestDocumentedGrantsSufficeForMachines(t *testing.T) {
	t.Parallel()
	_, app := asApp(t)
	exec(t, app, `INSERT INTO pgcoord.attempts (machine, key, token, claim_id, holder, attempt, expires_at)
		VALUES ('m', 'k', pgcoord.next_fencing_token(), 'c', 'h', 1, clock_timestamp() + interval '1 min')`)
	exec(t, app, `INSERT INTO pgcoord.machine_waiters (machine, key, channel, deadline) VALUES ('m', '', 'chan', 'infinity')
		ON CONFLICT (machine, key, channel) DO UPDATE SET deadline = excluded.deadline`)
	exec(t, app, "SELECT FROM pgcoord.attempts WHERE machine = 'm' FOR NO KEY UPDATE SKIP LOCKED")
	exec(t, app, "INSERT INTO pgcoord.transitions (machine, key, from_state, to_state) VALUES ('m', 'k', 'a', 'b')")
	if got := value[string](t, app, "SELECT strategy || ' ' || key FROM pgcoord.held"); got != "statemachine m k" {
		t.Errorf("held reads %q", got)
	}
	exec(t, app, "SELECT pgcoord.wake_machine('m', '', 1)")
	exec(t, app, `WITH a AS (UPDATE pgcoord.attempts SET ended_at = clock_timestamp(), outcome = 'done' RETURNING 1)
		SELECT pgcoord.require_one((SELECT count(*) FROM a))`)
	if _, err := app.Exec(bounded(t), "SELECT pgcoord.require_one(0)"); code(err) != "PGC01" {
		t.Errorf("require_one(0): %v, want PGC01", err)
	}
	exec(t, app, "DELETE FROM pgcoord.attempts; DELETE FROM pgcoord.transitions; DELETE FROM pgcoord.machine_waiters")
}

func TestDocumentedGrantsAreNoMoreThanThat(t *testing.T) {
	t.Parallel()
	_, app := asApp(t)
	for _, sql := range []string{
		"CREATE TABLE pgcoord.mine (n int)",
		"DROP TABLE pgcoord.task_locks",
		"TRUNCATE pgcoord.task_locks",
		"TRUNCATE pgcoord.attempts",
		"ALTER TABLE pgcoord.task_locks DISABLE TRIGGER ALL",
		"SELECT setval('pgcoord.fencing_token_seq', 1)",
		"ALTER SEQUENCE pgcoord.fencing_token_seq CACHE 20",
		"DROP SCHEMA pgcoord CASCADE",
	} {
		if _, err := app.Exec(bounded(t), sql); code(err) != "42501" {
			t.Errorf("%s: %v, want 42501", sql, err)
		}
	}
}

func TestWithoutTheGrantsThereIsNothing(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	bare := pgtest.Pool(t, dsn, pgtest.NewRole(t, dsn).Login)
	for _, sql := range []string{
		"SELECT * FROM pgcoord.held",
		"INSERT INTO pgcoord.task_locks (task_name) VALUES ('k')",
		"SELECT pgcoord.next_fencing_token()",
	} {
		if _, err := bare.Exec(bounded(t), sql); code(err) != "42501" {
			t.Errorf("%s: %v, want 42501", sql, err)
		}
	}
}
