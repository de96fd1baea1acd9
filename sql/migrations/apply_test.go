package migrations_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

// objects lists what is in a database beside the system's own, with its schema.
func objects(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return column[string](t, pool, `
		SELECT o.kind || ' ' || coalesce(n.nspname || '.', '') || o.name
		  FROM (SELECT 'schema' AS kind, NULL::oid AS space, nspname::text AS name FROM pg_namespace
		        UNION ALL SELECT 'relation', relnamespace, relname::text FROM pg_class
		        UNION ALL SELECT 'function', pronamespace, proname::text FROM pg_proc
		        UNION ALL SELECT 'type', typnamespace, typname::text FROM pg_type
		        UNION ALL SELECT 'trigger', NULL, tgname::text FROM pg_trigger
		        UNION ALL SELECT 'event trigger', NULL, evtname::text FROM pg_event_trigger) o
		  LEFT JOIN pg_namespace n ON n.oid = o.space
		 WHERE coalesce(n.nspname, o.name) !~ '^pg_' AND coalesce(n.nspname, o.name) <> 'information_schema'
		 ORDER BY 1`)
}

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.EmptyDSN(t))
	before := objects(t, pool)

	up(t, pool)
	if got := version(t, pool); got != newest(t) {
		t.Fatalf("version %d after up, want %d", got, newest(t))
	}
	first := objects(t, pool)
	up(t, pool)
	if again := objects(t, pool); !slices.Equal(first, again) {
		t.Errorf("a second up changed the objects:\n%v\n%v", first, again)
	}

	down(t, pool)
	if got := version(t, pool); got != -1 {
		t.Errorf("version %d after down, want none", got)
	}
	for _, object := range objects(t, pool) {
		if !slices.Contains(before, object) && !strings.Contains(object, migrations.Table) {
			t.Errorf("left after down: %s", object)
		}
	}
	down(t, pool)

	up(t, pool)
	if again := objects(t, pool); !slices.Equal(first, again) {
		t.Errorf("up after down makes other objects:\n%v\n%v", first, again)
	}
	if value[int64](t, pool, "SELECT pgcoord.next_fencing_token()") <= 0 {
		t.Error("no token after up, down, up")
	}
}

func TestEverythingButTheVersionTableIsInTheSchema(t *testing.T) {
	t.Parallel()
	empty := objects(t, pgtest.Pool(t, pgtest.EmptyDSN(t)))
	for _, object := range objects(t, pgtest.Pool(t, pgtest.DSN(t))) {
		ours := strings.Contains(object, " pgcoord.") || object == "schema pgcoord" || strings.Contains(object, migrations.Table)
		if !ours && !slices.Contains(empty, object) {
			t.Errorf("outside of schema pgcoord: %s", object)
		}
	}
}

// Many processes start at once, each with a pool of its own.
func TestUpAtOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDSN(t)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 8 {
		pool := pgtest.Pool(t, dsn)
		wg.Go(func() {
			<-start
			if err := migrations.Up(bounded(t), pool); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	if got := version(t, pgtest.Pool(t, dsn)); got != newest(t) {
		t.Errorf("version %d, want %d", got, newest(t))
	}
}

func TestDownLeavesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.DSN(t))
	exec(t, pool, "CREATE TABLE pgcoord.theirs AS SELECT 7 AS n")

	err := migrations.Down(bounded(t), pool)
	if code(err) != "2BP01" {
		t.Fatalf("down with a foreign table in the schema: %v, want 2BP01", err)
	}
	if got := value[int](t, pool, "SELECT n FROM pgcoord.theirs"); got != 7 {
		t.Errorf("the foreign table reads %d", got)
	}
	up(t, pool)
	if got := version(t, pool); got != newest(t) {
		t.Errorf("version %d after up, want %d", got, newest(t))
	}

	exec(t, pool, "DROP TABLE pgcoord.theirs")
	down(t, pool)
}

func TestFailedUpChangesNothingAndCanBeRepeated(t *testing.T) {
	for _, c := range []struct {
		inTheWay string // of which file
		stands   int
	}{
		{"SEQUENCE pgcoord.fencing_token_seq", -1}, // the first, with others to come
		{"VIEW pgcoord.held", 1},                   // the second
	} {
		pool := pgtest.Pool(t, pgtest.EmptyDSN(t))
		exec(t, pool, "CREATE SCHEMA pgcoord; CREATE "+strings.Replace(c.inTheWay, "held", "held AS SELECT 1", 1))
		leak := goleak.IgnoreCurrent()
		err := migrations.Up(bounded(t), pool)
		if code(err) != "42P07" {
			t.Fatalf("up with a %s in the way: %v, want 42P07", c.inTheWay, err)
		}
		goleak.VerifyNone(t, leak)
		if got := version(t, pool); got != c.stands {
			t.Errorf("version %d after the failure, want %d (-2: dirty)", got, c.stands)
		}

		exec(t, pool, "DROP "+c.inTheWay)
		up(t, pool)
		if got := version(t, pool); got != newest(t) {
			t.Errorf("version %d, want %d", got, newest(t))
		}
	}
}

func TestPoolIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.EmptyDSN(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	up(t, pool)
	down(t, pool)
	if got := pool.Stat().AcquiredConns(); got != 0 {
		t.Errorf("%d connections still in use", got)
	}
	// Advisory locks of this database only: the server is shared.
	if got := value[int](t, pool, `SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); got != 0 {
		t.Errorf("%d advisory locks left", got)
	}
}

func TestUnusablePool(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDSN(t)
	closed, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, pool := range map[string]*pgxpool.Pool{"nil": nil, "closed": closed} {
		for verb, run := range map[string]func(context.Context, *pgxpool.Pool) error{"up": migrations.Up, "down": migrations.Down} {
			err := run(bounded(t), pool)
			if err == nil || !strings.Contains(err.Error(), verb) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of a %s pool: %v", verb, name, err)
			}
		}
	}
}
