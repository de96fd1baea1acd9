package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestStartAndStop(t *testing.T) {
	server := start(t, Options{Settings: map[string]string{"work_mem": "5MB", "application_name": "it's"}})
	if server.Kind() != KindLocal || !strings.HasPrefix(server.String(), "PostgreSQL 1") {
		t.Fatalf("kind %q, %v", server.Kind(), server)
	}
	conn := connect(t, server.DSN("template1"))
	for name, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "max_connections": "200",
		"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "work_mem": "5MB", "application_name": "it's",
		"server_encoding": "UTF8", "is_superuser": "on", "TimeZone": "UTC",
	} {
		if got := ask[string](t, conn, "SHOW "+name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	folder := filepath.Dir(ask[string](t, conn, "SHOW data_directory"))
	port := server.backend.(*local).port
	for range 2 {
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if exists(folder) || !portFree(port) {
		t.Errorf("left behind: folder %v, port in use %v", exists(folder), !portFree(port))
	}
	if err := server.Restart(t.Context(), Fast); err == nil {
		t.Error("a stopped server was restarted")
	}
}

func TestLog(t *testing.T) {
	server := start(t, Options{})
	conn := connect(t, server.DSN("template1"))
	_, err := conn.Exec(t.Context(), "SELECT 1/0 AS boom")
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		t.Fatalf("got %v", err)
	}
	log := server.Log() // at once: the line is written before the client is told
	for _, want := range []string{" db=template1 state=22012 ERROR:  ", "STATEMENT:  SELECT 1/0 AS boom"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in the log:\n%s", want, log)
		}
	}
	if strings.Contains(log, "FATAL") {
		t.Errorf("the start left an error in the log:\n%s", log)
	}
}

func TestAlterSystemCounts(t *testing.T) {
	server := start(t, Options{Settings: map[string]string{"work_mem": "5MB"}})
	conn := connect(t, server.DSN("postgres"))
	exec1(t, conn, "ALTER SYSTEM SET work_mem = '6MB'")
	if err := server.Restart(t.Context(), Fast); err != nil {
		t.Fatal(err)
	}
	if got := ask[string](t, connect(t, server.DSN("postgres")), "SHOW work_mem"); got != "6MB" {
		t.Errorf("work_mem is %s, want 6MB", got)
	}
}

func TestRestart(t *testing.T) {
	server := start(t, Options{})
	dsn := server.DSN("postgres")
	exec1(t, connect(t, dsn), "CREATE TABLE t (n int PRIMARY KEY)")
	for i, mode := range []Mode{Fast, Immediate, Kill} {
		t.Run(mode.String(), func(t *testing.T) {
			before := connect(t, dsn)
			since := ask[time.Time](t, before, "SELECT pg_postmaster_start_time()")
			exec1(t, before, fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
			waiting, looping := occupy(t, dsn)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := server.Restart(ctx, mode); err != nil {
				t.Fatal(err)
			}
			after := connect(t, dsn) // the same port, and at once
			if n := ask[int](t, after, "SELECT count(*) FROM t"); n != i+1 {
				t.Errorf("%d rows, want the %d that were committed", n, i+1)
			}
			if !ask[time.Time](t, after, "SELECT pg_postmaster_start_time()").After(since) {
				t.Error("the server is the old one")
			}
			if <-waiting == nil || <-looping == nil {
				t.Error("a statement survived the restart")
			}
		})
	}
}

// occupy has one connection wait for a lock that another holds, and a third one
// compute without end. It returns where their outcomes arrive.
func occupy(t *testing.T, dsn string) (waiting, looping <-chan error) {
	t.Helper()
	holder, waiter, looper := connect(t, dsn), connect(t, dsn), connect(t, dsn)
	exec1(t, holder, "BEGIN; LOCK TABLE t")
	waiting = outcome(waiter, "INSERT INTO t VALUES (100)")
	looping = outcome(looper, "DO $$ BEGIN LOOP NULL; END LOOP; END $$")
	observer := connect(t, dsn)
	eventually(t, "both to be at it", func() bool {
		return ask[int](t, observer, `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' OR state = 'active' AND query LIKE 'DO %'`) == 2
	})
	return waiting, looping
}

func outcome(conn *pgx.Conn, sql string) <-chan error {
	result := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), sql)
		result <- err
	}()
	return result
}

func TestPorts(t *testing.T) {
	var ports []int
	for range 2 {
		server := start(t, Options{})
		port := server.backend.(*local).port
		if port < lowestPort || port >= highestPort {
			t.Errorf("port %d is outside %d to %d", port, lowestPort, highestPort)
		}
		ports = append(ports, port)
	}
	if ports[0] == ports[1] {
		t.Errorf("ports %v", ports)
	}
}

func TestBadSettingIsTold(t *testing.T) {
	_, err := Start(t.Context(), Options{Own: true, InMemory: true, Settings: map[string]string{"work_mem": "lots"}})
	if err == nil || !strings.Contains(err.Error(), "work_mem") {
		t.Fatalf("got %v, want the server's complaint about work_mem", err)
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	before, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, Options{Own: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want a timeout", err)
	}
	after, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	if err != nil || len(after) > len(before) {
		t.Errorf("left behind: %v before, %v after, %v", before, after, err)
	}
}

func TestWhereTheDataIs(t *testing.T) {
	for inMemory, want := range map[bool]bool{true: hasRoom(memoryFolder), false: false} {
		server, err := Start(t.Context(), Options{Own: true, InMemory: inMemory})
		if err != nil {
			t.Fatal(err)
		}
		got := ask[string](t, connect(t, server.DSN("postgres")), "SHOW data_directory")
		if strings.HasPrefix(got, memoryFolder) != want {
			t.Errorf("InMemory %v: the data is in %s", inMemory, got)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestStandby(t *testing.T) {
	primary := start(t, Options{})
	write := connect(t, primary.DSN("postgres"))
	exec1(t, write, "CREATE TABLE t (n int)")
	standby, err := primary.Standby(t.Context(), Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	exec1(t, connect(t, primary.DSN("postgres")), "INSERT INTO t VALUES (1)")
	read := connect(t, standby.DSN("postgres"))
	eventually(t, "the row on the standby", func() bool { return ask[int](t, read, "SELECT count(*) FROM t") == 1 })
	var pgErr *pgconn.PgError
	if _, err := read.Exec(t.Context(), "INSERT INTO t VALUES (2)"); !errors.As(err, &pgErr) || pgErr.Code != "25006" {
		t.Fatalf("got %v, want 25006", err)
	}
	if !ask[bool](t, read, "SELECT pg_promote()") {
		t.Fatal("not promoted")
	}
	exec1(t, read, "INSERT INTO t VALUES (2)")
	if line := ask[string](t, read, "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)"); line != "00000002" {
		t.Errorf("timeline %s, want 00000002", line)
	}
}

func TestStandbyNeedsALocalServer(t *testing.T) {
	t.Setenv(EnvURL, start(t, Options{}).DSN("postgres"))
	t.Setenv(EnvKind, KindURL)
	server, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Standby(t.Context(), Options{}); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v, want ErrForeign", err)
	}
}
