package localpg

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

//go:embed testdata/postgres.txz
var programs []byte

// repository serves an archive as embedded-postgres downloads it. The programs
// in it are scripts that run this machine's.
func repository(t *testing.T) string {
	t.Helper()
	bin, err := findBinaries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGCOORD_TEST_BIN", bin.dir)
	var jar bytes.Buffer
	w := zip.NewWriter(&jar)
	entry, err := w.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := entry.Write(programs); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			sum := sha256.Sum256(jar.Bytes())
			_, _ = w.Write([]byte(hex.EncodeToString(sum[:])))
			return
		}
		_, _ = w.Write(jar.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestEmbedded(t *testing.T) {
	t.Setenv(EnvKind, KindEmbedded)
	if os.Geteuid() == 0 { // TestOrdinaryUser runs the rest
		if _, err := Start(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "root") {
			t.Fatalf("got %v, want a refusal to root", err)
		}
		return
	}
	privateTemp(t)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	config := embeddedpostgres.DefaultConfig().BinaryRepositoryURL(repository(t))
	home := filepath.Join(cache, "pgcoord", "postgres-"+string(embeddedVersion))
	var both sync.WaitGroup
	for range 2 { // as two test binaries do
		both.Go(func() {
			if err := download(t.Context(), home, config, Options{Logf: t.Logf}); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	server := start(t, Options{})
	if server.Kind() != KindEmbedded || !strings.Contains(server.String(), home) {
		t.Fatalf("got %v", server)
	}
	exec1(t, connect(t, server.DSN("postgres")), "SELECT 1")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(cache, "pgcoord", "download-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestEmbeddedWithoutInternet(t *testing.T) {
	home := filepath.Join(t.TempDir(), "postgres")
	config := embeddedpostgres.DefaultConfig().BinaryRepositoryURL("http://127.0.0.1:1")
	if err := download(t.Context(), home, config, Options{}); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Fatalf("got %v, want an error that names the repository", err)
	}
	if exists(home) {
		t.Error("left something behind")
	}
}
