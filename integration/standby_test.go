package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/sql/migrations"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// startStandby makes a streaming standby of the server of dsn, from local
// binaries, and returns the DSN of the same database on it.
func startStandby(t *testing.T, dsn string) string {
	t.Helper()
	primary, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	bins, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(bins) == 0 {
		t.Fatal("no PostgreSQL in /usr/lib/postgresql", err)
	}
	slices.Sort(bins)
	bin := bins[len(bins)-1]
	dir, port := folder(t), freePort(t)
	credential := account(t, dir)
	data := filepath.Join(dir, "data")

	backup := exec.Command(filepath.Join(bin, "pg_basebackup"), "--pgdata", data, "--write-recovery-conf",
		"--checkpoint", "fast", "--no-sync", "--host", primary.Host, "--port", fmt.Sprint(primary.Port), "--username", primary.User)
	backup.Env = append(backup.Environ(), "PGPASSWORD="+primary.Password)
	backup.Dir, backup.SysProcAttr = dir, &syscall.SysProcAttr{Credential: credential}
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v: %s", err, out)
	}
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", fmt.Sprint(port), "-c", "hot_standby=on")
	server.Dir, server.SysProcAttr = dir, &syscall.SysProcAttr{Credential: credential}
	standby := fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", primary.User, primary.Password, port, primary.Database)
	daemon(t, server, func() bool { return answers(t, standby) })
	return standby
}

func TestStandby(t *testing.T) {
	empty, migrated := pgtest.EmptyDSN(t), pgtest.DSN(t)
	onEmpty := startStandby(t, empty)
	config, err := pgx.ParseConfig(migrated)
	if err != nil {
		t.Fatal(err)
	}
	emptyName := onEmpty[strings.LastIndexByte(onEmpty, '/')+1 : strings.IndexByte(onEmpty, '?')]
	onMigrated := strings.Replace(onEmpty, "/"+emptyName+"?", "/"+config.Database+"?", 1)
	ctx := bounded(t, 20*time.Second)

	if err := migrations.Up(ctx, pgtest.Pool(t, onEmpty)); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("up: %v, want an error that names the standby", err)
	}
	pool := pgtest.Pool(t, onMigrated)
	if err := migrations.Up(ctx, pool); err != nil {
		t.Errorf("up with nothing to do: %v", err)
	}
	if err := migrations.Down(ctx, pool); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("down: %v, want an error that names the standby", err)
	}
	c, err := uniquelock.New(pool, uniquelock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, c)
	if _, err := c.TryAcquire(ctx, "job"); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("acquire: %v, want an error that names the standby", err)
	}
}
