package localpg

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// EnvTestDocker, as "on", runs the tests that need a Docker engine with a
// postgres image (see EnvImage). CI sets it.
const EnvTestDocker = "PGCOORD_TEST_DOCKER"

func needDocker(t *testing.T) {
	t.Helper()
	if os.Getenv(EnvTestDocker) != "on" {
		t.Skipf("%s is not on", EnvTestDocker)
	}
	t.Setenv(EnvKind, KindDocker)
}

// containers returns what Docker has of that name.
func containers(t *testing.T, name string) string {
	t.Helper()
	left, err := docker(context.Background(), "ps", "--all", "--quiet", "--filter", "name="+name)
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := docker(context.Background(), "volume", "ls", "--quiet", "--filter", "name="+name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(left + volumes)
}

func TestDocker(t *testing.T) {
	needDocker(t)
	server := start(t, Options{Settings: map[string]string{"work_mem": "5MB"}})
	if server.Kind() != KindDocker {
		t.Fatalf("kind %s", server.Kind())
	}
	exec1(t, connect(t, server.DSN("postgres")), "CREATE TABLE t (n int)")
	for i, mode := range []Mode{Fast, Immediate, Kill} {
		exec1(t, connect(t, server.DSN("postgres")), "INSERT INTO t VALUES (1)")
		if err := server.Restart(t.Context(), mode); err != nil {
			t.Fatal(err)
		}
		conn := connect(t, server.DSN("postgres"))
		if n := ask[int](t, conn, "SELECT count(*) FROM t"); n != i+1 {
			t.Errorf("after %v: %d rows, want %d", mode, n, i+1)
		}
		for name, want := range map[string]string{"work_mem": "5MB", "fsync": "on", "max_connections": "200"} {
			if got := ask[string](t, conn, "SHOW "+name); got != want {
				t.Errorf("after %v: %s is %s, want %s", mode, name, got, want)
			}
		}
	}
	conn := connect(t, server.DSN("postgres"))
	if _, err := conn.Exec(t.Context(), "SELECT 1/0"); err == nil {
		t.Fatal("divided by zero")
	}
	eventually(t, "the error in the log", func() bool { return strings.Contains(server.Log(), " db=postgres state=22012 ERROR:  ") })
	c := server.backend.(*container)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if left := containers(t, c.name); left != "" || exists(c.folder.path) {
		t.Errorf("left behind: %s, folder %v", left, exists(c.folder.path))
	}
}

func TestDockerAfterAKilledProcess(t *testing.T) {
	needDocker(t)
	cmd := exec.Command(ownBinary(t))
	privateTemp(t)
	c := startChild(t, cmd)
	name := filepath.Base(c.folder(t))
	if containers(t, name) == "" {
		t.Fatal("no container runs")
	}
	sweep(t.Logf)
	running := func() bool {
		out, err := docker(t.Context(), "ps", "--quiet", "--filter", "name="+name)
		return err == nil && strings.TrimSpace(out) != ""
	}
	if !running() {
		t.Fatal("a living process's container was swept")
	}
	c.kill()
	eventually(t, "the container's end", func() bool { return !running() })
	sweep(t.Logf)
	if left := containers(t, name); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func TestDockerWithoutItsImage(t *testing.T) {
	needDocker(t)
	t.Setenv(EnvImage, "localhost:1/no/such:image")
	before := containers(t, folderPrefix)
	_, err := Start(t.Context(), Options{})
	if err == nil || !strings.Contains(err.Error(), "localhost:1") {
		t.Fatalf("got %v, want what docker says about the image", err)
	}
	if after := containers(t, folderPrefix); after != before {
		t.Errorf("left behind: %s, before %s", after, before)
	}
}
