package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/sql/migrations"
)

// startPooler puts PgBouncer, in transaction mode, before the database of dsn
// and returns the DSN that goes through it.
func startPooler(t *testing.T, dsn string) string {
	t.Helper()
	server, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	dir, port := folder(t), freePort(t)
	target := fmt.Sprintf("host=%s port=%d user=%s", server.Host, server.Port, server.User)
	if server.Password != "" {
		target += " password=" + server.Password
	}
	ini := fmt.Sprintf(`[databases]
%s = %s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
`, server.Database, target, port)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	binary, err := exec.LookPath("pgbouncer")
	if err != nil {
		binary = "/usr/sbin/pgbouncer" // not in an ordinary user's PATH
	}
	cmd := exec.Command(binary, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account(t, dir)}
	through := fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?sslmode=disable&default_query_exec_mode=exec", server.User, port, server.Database)
	daemon(t, cmd, func() bool { return answers(t, through) })
	return through
}

// The migrator's lock belongs to a session, and a pooler gives that to others.
func TestMigrationsRefuseAPooler(t *testing.T) {
	dsn := pgtest.EmptyDSN(t)
	through := startPooler(t, dsn)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol,
	} {
		pool := pgtest.Pool(t, through, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
		ctx := bounded(t, 10*time.Second)
		for verb, err := range map[string]error{"up": migrations.Up(ctx, pool), "down": migrations.Down(ctx, pool)} {
			if err == nil || !strings.Contains(err.Error(), "pooler") {
				t.Errorf("%v, migrate %s: %v, want a refusal that names the pooler", mode, verb, err)
			}
		}
	}
	direct := pgtest.Pool(t, dsn)
	var tables int
	if err := direct.QueryRow(bounded(t, 10*time.Second), "SELECT count(*) FROM pg_tables WHERE tablename = $1", migrations.Table).Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d version tables (%v), want none", tables, err)
	}
}

// Behind a pooler notifications do not arrive; everything else works.
func TestUniquelockBehindAPooler(t *testing.T) {
	runJobs(t, pgtest.Pool(t, startPooler(t, pgtest.DSN(t))))
}
