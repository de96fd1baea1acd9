package localpg

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// envChild makes this binary a process that starts a server, prints where its
// folder is, and lives on.
const envChild = "PGCOORD_LOCALPG_CHILD"

func runChild() {
	server, err := Start(context.Background(), Options{Own: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch b := server.backend.(type) {
	case *local:
		fmt.Println(b.folder.path)
	case *container:
		fmt.Println(b.folder.path)
	}
	select {}
}

// privateTemp makes a temporary folder that every account can use and no other
// test binary sweeps, and makes it this process's own.
func privateTemp(t *testing.T) string {
	t.Helper()
	base := os.TempDir()
	if hasRoom(memoryFolder) {
		base = memoryFolder
	}
	dir := openFolder(t, base)
	t.Setenv("TMPDIR", dir)
	return dir
}

// openFolder makes a folder that every account can use.
func openFolder(t *testing.T, base string) string {
	t.Helper()
	dir, err := os.MkdirTemp(base, "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}
