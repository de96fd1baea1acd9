package localpg

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestURL(t *testing.T) {
	own := start(t, Options{})
	exec1(t, connect(t, own.DSN("postgres")), "CREATE DATABASE other")
	t.Setenv(EnvURL, own.DSN("postgres"))
	for _, forced := range []string{"", KindURL} {
		t.Setenv(EnvKind, forced)
		server, err := Start(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if server.Kind() != KindURL || server.Log() != "" {
			t.Errorf("kind %s, log %q", server.Kind(), server.Log())
		}
		if got := ask[string](t, connect(t, server.DSN("other")), "SELECT current_database()"); got != "other" {
			t.Errorf("connected to %s, want other", got)
		}
		if err := server.Restart(t.Context(), Fast); !errors.Is(err, ErrForeign) {
			t.Errorf("restart: %v, want ErrForeign", err)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
		exec1(t, connect(t, own.DSN("postgres")), "SELECT 1") // it was left alone
	}
	t.Setenv(EnvKind, KindURL)
	if server := start(t, Options{}); server.Kind() == KindURL {
		t.Error("Options.Own was given the server of the URL")
	}
}

func TestURLThatDoesNotAnswer(t *testing.T) {
	t.Setenv(EnvKind, "")
	for _, dsn := range []string{"postgres://u@127.0.0.1:1/x?sslmode=disable", "no such thing"} {
		t.Setenv(EnvURL, dsn)
		if _, err := Start(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), EnvURL) {
			t.Errorf("%s: got %v, want an error that names %s and no other server", dsn, err, EnvURL)
		}
	}
}

func TestForcedKind(t *testing.T) {
	t.Setenv(EnvURL, "")
	t.Setenv(EnvBin, t.TempDir())
	for kind, want := range map[string]string{
		KindURL:   EnvURL + " is not set",
		KindLocal: EnvBin,
		"mysql":   "want url, local, docker or embedded",
	} {
		t.Setenv(EnvKind, kind)
		if _, err := Start(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: got %v, want %q", EnvKind, kind, err, want)
		}
	}
}

func TestNothingAvailable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Setenv("HOME", "")
		t.Setenv("XDG_CACHE_HOME", "")
	}
	t.Setenv(EnvKind, "")
	t.Setenv(EnvURL, "")
	t.Setenv(EnvBin, t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err := Start(t.Context(), Options{})
	if err == nil {
		t.Fatal("started out of nothing")
	}
	for _, want := range []string{"url: ", "local: ", "docker: ", "embedded: ", "apt-get install", EnvBin, EnvURL} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}

func TestBinariesFromVariableAndPath(t *testing.T) {
	usual, err := findBinaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.Symlink(usual.path(name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(EnvBin, dir)
	if b, err := findBinaries(t.Context()); err != nil || b.dir != dir || b.version != usual.version {
		t.Errorf("by the variable: %+v, %v", b, err)
	}
	t.Setenv(EnvBin, "")
	t.Setenv("PATH", dir)
	saved := installFolders
	defer func() { installFolders = saved }()
	installFolders = []string{filepath.Join(dir, "none-*")}
	if b, err := findBinaries(t.Context()); err != nil || b.dir != usual.dir {
		t.Errorf("by PATH: %+v, %v; want the folder behind the link", b, err)
	}
}

func TestNewestBinariesWin(t *testing.T) {
	dir := t.TempDir()
	for name, version := range map[string]string{"a": "9.6.24", "b": "16.2", "c": "16.10", "d": "13.1", "e": "18beta1x"} {
		bin := filepath.Join(dir, name, "bin")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + " (Some 1.pgdg+1)'\n"
		if name == "e" {
			script = "#!/bin/sh\nexit 1\n"
		}
		for _, program := range []string{"initdb", "postgres"} {
			if err := os.WriteFile(filepath.Join(bin, program), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	saved := installFolders
	defer func() { installFolders = saved }()
	installFolders = []string{filepath.Join(dir, "*", "bin")}
	t.Setenv(EnvBin, "")
	if b, err := findBinaries(t.Context()); err != nil || b.version != "16.10" {
		t.Errorf("got %+v, %v; want 16.10", b, err)
	}
	installFolders = []string{filepath.Join(dir, "d", "bin")}
	if b, err := findBinaries(t.Context()); err == nil || !strings.Contains(err.Error(), "older than 14") {
		t.Errorf("got %+v, %v; want a refusal of 13", b, err)
	}
}

func TestWithDatabase(t *testing.T) {
	for _, dsn := range []string{
		"postgres://u:p%40@h:5433/d?sslmode=disable",
		"postgres://u:p%40@h:5433/?sslmode=disable&dbname=d",
		"postgresql://u:p%40@h:5433?sslmode=disable",
		"host=h port=5433 user=u password=p@ dbname=d sslmode=disable",
	} {
		for _, database := range []string{"x", "with space", `it's`, `b\s`, "ü/?%"} {
			config, err := pgx.ParseConfig(withDatabase(dsn, database))
			if err != nil {
				t.Errorf("%s, %s: %v", dsn, database, err)
				continue
			}
			if config.Database != database || config.Host != "h" || config.Port != 5433 || config.User != "u" || config.Password != "p@" {
				t.Errorf("%s, %s: %s", dsn, database, config.ConnString())
			}
		}
	}
}
