package faultproxy_test

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgcoord/pgcoord/internal/faultproxy"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience bounds what must happen; moment is how long a test watches that
// something does not.
const (
	patience = 10 * time.Second
	moment   = 50 * time.Millisecond
)

// scene is a database with an empty table t, a proxy before it, a connection
// through the proxy and one past it.
type scene struct {
	proxy   *faultproxy.Proxy
	dsn     string // through the proxy
	through *pgx.Conn
	direct  *pgx.Conn
}

func newScene(t *testing.T) scene {
	t.Helper()
	dsn := pgtest.EmptyDSN(t)
	s := scene{direct: connect(t, dsn), proxy: pgtest.Proxy(t, dsn)}
	s.dsn = s.proxy.DSN(dsn)
	s.through = connect(t, s.dsn)
	exec(t, s.direct, "CREATE TABLE t (n int)")
	return s
}

func (s scene) rows(t *testing.T) (n int) {
	t.Helper()
	if err := s.direct.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// sessions counts the server's sessions that came through the proxy.
func (s scene) sessions(t *testing.T) (n int) {
	t.Helper()
	err := s.direct.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = conn.Close(ctx) // many tests have broken it
	})
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// begin opens a transaction that has inserted one row.
func (s scene) begin(t *testing.T) pgx.Tx {
	t.Helper()
	tx, err := s.through.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO t VALUES ($1)", 1); err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestRelay(t *testing.T) {
	s := newScene(t)
	const size = 1 << 20 // many reads each way
	var length int
	err := s.through.QueryRow(t.Context(), "SELECT length($1 || repeat('x', $2))", string(make([]byte, 0)), size).Scan(&length)
	if err != nil || length != size {
		t.Fatalf("got %d, %v", length, err)
	}
	rows := make([][]any, 5000)
	for i := range rows {
		rows[i] = []any{i}
	}
	if _, err := s.through.CopyFrom(t.Context(), pgx.Identifier{"t"}, []string{"n"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
	var back string
	if err := s.through.QueryRow(t.Context(), "SELECT string_agg(n::text, ',') FROM t").Scan(&back); err != nil || s.rows(t) != len(rows) {
		t.Fatalf("copied %d rows, %v", s.rows(t), err)
	}
}

func TestCancelRequestPasses(t *testing.T) {
	s := newScene(t)
	result := make(chan error, 1)
	go func() {
		_, err := s.through.Exec(context.Background(), "SELECT pg_sleep(60)")
		result <- err
	}()
	pgtest.Eventually(t, patience, "the sleep to begin", func() bool {
		var n int
		err := s.direct.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()").Scan(&n)
		return err == nil && n == 1
	})
	if err := s.through.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	var pgErr *pgconn.PgError
	if err := <-result; !errors.As(err, &pgErr) || pgErr.Code != "57014" {
		t.Fatalf("got %v, want 57014", err)
	}
}

func TestFreeze(t *testing.T) {
	s := newScene(t)
	s.proxy.Freeze()
	result := make(chan error, 1)
	go func() {
		_, err := s.through.Exec(context.Background(), "INSERT INTO t VALUES (1)")
		result <- err
	}()
	select {
	case err := <-result:
		t.Fatalf("a frozen connection answered: %v", err)
	case <-time.After(moment):
	}
	if n := s.rows(t); n != 0 {
		t.Fatalf("%d rows arrived through a frozen connection", n)
	}
	s.proxy.Thaw()
	if err := <-result; err != nil || s.rows(t) != 1 {
		t.Fatalf("after Thaw: %v, %d rows", err, s.rows(t))
	}
}

func TestFreezeHoldsEnds(t *testing.T) {
	s := newScene(t)
	s.proxy.Freeze()
	if err := s.through.PgConn().Conn().Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	if _, err := pgx.Connect(ctx, s.dsn); err == nil {
		t.Fatal("connected through a frozen proxy")
	}
	if n := s.sessions(t); n != 1 {
		t.Fatalf("%d sessions on the server, want the one whose client is gone", n)
	}
	s.proxy.Thaw()
	pgtest.Eventually(t, patience, "the server to learn of the client's end", func() bool { return s.sessions(t) == 0 })
}

func TestCutAndReset(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(*faultproxy.Proxy)
		want   error
		frozen bool
	}{
		{"cut", (*faultproxy.Proxy).Cut, io.ErrUnexpectedEOF, false},
		{"cut while frozen", (*faultproxy.Proxy).Cut, io.ErrUnexpectedEOF, true},
		{"reset", (*faultproxy.Proxy).Reset, syscall.ECONNRESET, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t)
			s.begin(t)
			if c.frozen {
				s.proxy.Freeze()
			}
			c.do(s.proxy)
			if err := s.through.PgConn().WaitForNotification(t.Context()); !errors.Is(err, c.want) && !errors.Is(err, io.EOF) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			pgtest.Eventually(t, patience, "the server's session to end", func() bool { return s.sessions(t) == 0 })
			s.proxy.Thaw()
			exec(t, connect(t, s.dsn), "INSERT INTO t VALUES (1)")
			if n := s.rows(t); n != 1 {
				t.Fatalf("%d rows, want that of the new connection", n)
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	s := newScene(t)
	s.proxy.Refuse(true)
	if _, err := pgx.Connect(t.Context(), s.dsn); err == nil {
		t.Fatal("connected")
	}
	exec(t, s.through, "SELECT 1") // an open connection goes on
	s.proxy.Refuse(false)
	exec(t, connect(t, s.dsn), "SELECT 1")
}

func TestDelay(t *testing.T) {
	s := newScene(t)
	const delay = 20 * time.Millisecond
	s.proxy.Delay(delay)
	start := time.Now()
	exec(t, s.through, "SELECT 1")
	if took := time.Since(start); took < 2*delay {
		t.Fatalf("a round trip took %v, want at least %v", took, 2*delay)
	}
	s.proxy.Delay(0)
}

func TestCloseUnderFaults(t *testing.T) {
	s := newScene(t)
	s.proxy.Freeze()
	s.proxy.Delay(time.Hour)
	result := make(chan error, 1)
	go func() {
		_, err := s.through.Exec(context.Background(), "SELECT 1")
		result <- err
	}()
	s.proxy.Close() // returns only when all goroutines have ended
	if err := <-result; err == nil {
		t.Fatal("a closed proxy answered")
	}
	s.proxy.Close()
	if _, err := pgx.Connect(t.Context(), s.dsn); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("got %v, want connection refused", err)
	}
}

func TestNoServer(t *testing.T) {
	proxy, err := faultproxy.New("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	if _, err := pgx.Connect(t.Context(), "postgres://x@"+proxy.Addr()+"/x?sslmode=disable"); err == nil {
		t.Fatal("connected to nothing")
	}
}
