package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// asHost makes the test binary the program.
const asHost = "EXAMPLE_AS_HOST"

func TestMain(m *testing.M) {
	if os.Getenv(asHost) != "" {
		main()
		return
	}
	pgtest.Main(m)
}

const accounts = 250

func newAccounts(t *testing.T) (*pgxpool.Pool, string) {
	t.Helper()
	dsn := pgtest.EmptyDSN(t)
	pool := pgtest.Pool(t, dsn)
	_, err := pool.Exec(t.Context(), `
		CREATE TABLE accounts (id bigint PRIMARY KEY, balance numeric NOT NULL, booked_on date NOT NULL);
		INSERT INTO accounts SELECT i, 100, '2025-05-31' FROM generate_series(1, 250) i`)
	if err != nil {
		t.Fatal(err)
	}
	return pool, dsn
}

// host is a process of the fleet.
type host struct {
	*exec.Cmd
	log bytes.Buffer
}

func start(t *testing.T, dsn string) *host {
	t.Helper()
	h := &host{Cmd: exec.Command(os.Args[0], "-day", "2025-06-01", "-ttl", "1s")}
	h.Env = append(os.Environ(), asHost+"=1", "DATABASE_URL="+dsn)
	h.Stderr = &h.log
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Process.Kill() }) // it has ended, unless the test failed
	return h
}

func wantBookedOnce(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var once int
	err := pool.QueryRow(t.Context(), "SELECT count(*) FROM accounts WHERE balance = 101 AND booked_on = '2025-06-01'").Scan(&once)
	if err != nil || once != accounts {
		t.Errorf("%d of %d accounts booked once, %v", once, accounts, err)
	}
}

func TestFleet(t *testing.T) {
	t.Parallel()
	pool, dsn := newAccounts(t)
	fleet := []*host{start(t, dsn), start(t, dsn), start(t, dsn)}
	workers := 0
	for _, h := range fleet {
		if err := h.Wait(); err != nil {
			t.Errorf("%v: %s", err, h.log.String())
		}
		if strings.HasSuffix(strings.TrimSpace(h.log.String()), " done") {
			workers++
		}
	}
	if workers != 1 {
		t.Errorf("%d hosts did the work, want 1", workers)
	}
	wantBookedOnce(t, pool)
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	pool, dsn := newAccounts(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The second step of the first host comes to a stop here.
	if _, err := tx.Exec(t.Context(), "SELECT FROM accounts WHERE id = 150 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	first := start(t, dsn)
	pgtest.Eventually(t, 20*time.Second, "the first host is in its second step", func() bool {
		var n int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n == 1
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	second := start(t, dsn)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(); err != nil {
		t.Errorf("%v: %s", err, second.log.String())
	}
	wantBookedOnce(t, pool)
}
