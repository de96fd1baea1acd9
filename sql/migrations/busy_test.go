package migrations_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

// useAll opens a transaction that has read, and written where it can, every
// table there is, as a service at work does.
func useAll(t *testing.T, pool *pgxpool.Pool, dsn string) (end func()) {
	t.Helper()
	tx := begin(t, dsn)
	for _, table := range column[string](t, pool, "SELECT tablename FROM pg_tables WHERE schemaname = 'pgcoord'") {
		exec(t, tx, "SELECT * FROM pgcoord."+table+" FOR UPDATE")
		exec(t, tx, "DELETE FROM pgcoord."+table+" WHERE false")
	}
	exec(t, tx, "SELECT pgcoord.next_fencing_token()")
	return func() {
		t.Helper()
		if err := tx.Rollback(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// waitingForLock reports whether somebody in the pool's database waits for one.
func waitingForLock(t *testing.T, pool *pgxpool.Pool) func() bool {
	return func() bool {
		return value[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`)
	}
}

func TestUpWhileTablesAreInUse(t *testing.T) {
	t.Parallel()
	for from := 1; from <= newest(t); from++ {
		dsn := pgtest.EmptyDSN(t)
		pool := pgtest.Pool(t, dsn)
		m, _ := command(t, dsn)
		if err := m.Steps(from); err != nil {
			t.Fatal(err)
		}
		end := useAll(t, pool, dsn)
		began := time.Now()
		// Nothing that the files do today touches a table that was there before.
		up(t, pool)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("from version %d: took %v", from, took)
		}
		end()
	}
}

func TestDownWhileTablesAreInUse(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	pool := pgtest.Pool(t, dsn)
	end := useAll(t, pool, dsn)
	err := migrations.Down(bounded(t), pool)
	if code(err) != "55P03" {
		t.Fatalf("down: %v, want 55P03", err)
	}
	mentions(t, err, "in use", "call again")
	if got := version(t, pool); got != newest(t) {
		t.Errorf("version %d, want %d", got, newest(t))
	}
	end()
	down(t, pool)
}

func TestUpWaitsForAnotherMigrator(t *testing.T) {
	t.Parallel()
	dsn := pgtest.EmptyDSN(t)
	pool := pgtest.Pool(t, dsn)
	_, other := command(t, dsn)
	if err := other.Lock(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- migrations.Up(bounded(t), pool) }()
	pgtest.Eventually(t, within, "up waits for the other migrator", waitingForLock(t, pool))
	select {
	case err := <-done:
		t.Fatalf("up did not wait: %v", err)
	default:
	}
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestCancelWhileWaitingForAnotherMigrator(t *testing.T) {
	dsn := pgtest.EmptyDSN(t)
	pool := pgtest.Pool(t, dsn)
	_, other := command(t, dsn)
	if err := other.Lock(); err != nil {
		t.Fatal(err)
	}
	leak := goleak.IgnoreCurrent()
	cancelWhileWaiting(t, pool, migrations.Up)
	goleak.VerifyNone(t, leak)
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	if left := value[int](t, pool, "SELECT count(*)::int FROM pg_namespace WHERE nspname = 'pgcoord'"); left != 0 {
		t.Error("the cancelled up has made the schema")
	}
	up(t, pool)
}

func TestCancelWhileWaitingForATable(t *testing.T) {
	dsn := pgtest.DSN(t)
	pool := pgtest.Pool(t, dsn)
	end := useAll(t, pool, dsn)
	leak := goleak.IgnoreCurrent()
	cancelWhileWaiting(t, pool, migrations.Down)
	goleak.VerifyNone(t, leak)
	end()
	if got := version(t, pool); got != newest(t) {
		t.Errorf("version %d, want %d", got, newest(t))
	}
	down(t, pool)
}

// cancelWhileWaiting cancels a run that waits for a lock, which must end it
// soon, on the server too.
func cancelWhileWaiting(t *testing.T, pool *pgxpool.Pool, run func(context.Context, *pgxpool.Pool) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	done := make(chan error, 1)
	go func() { done <- run(ctx, pool) }()
	pgtest.Eventually(t, within, "the run waits for a lock", waitingForLock(t, pool))
	cancel()
	began := time.Now()
	err := <-done
	if took := time.Since(began); took > time.Second {
		t.Errorf("returned %v after it was cancelled", took)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	pgtest.Eventually(t, within, "the server stops waiting too", func() bool { return !waitingForLock(t, pool)() })
}

func TestCancelledBefore(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.EmptyDSN(t))
	before := objects(t, pool)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := migrations.Up(ctx, pool); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	if after := objects(t, pool); len(after) != len(before) {
		t.Errorf("changed the database: %v", after)
	}
}
