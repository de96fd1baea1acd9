package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord/internal/localpg"
)

// startLimit bounds the start of a server, and each statement on its own behalf.
const startLimit = time.Minute

// EnvFsync, as "on", gives tests servers that write to the disk, and wait for
// it, as a server in use does. Otherwise their data is in memory where this
// machine has a file system for that, and the shared server has fsync off.
const EnvFsync = "PGCOORD_TEST_FSYNC"

func durable() bool { return os.Getenv(EnvFsync) == "on" }

// shared is the server of this test binary.
var shared struct {
	mu       sync.Mutex
	started  bool
	server   *localpg.Server
	err      error
	template string
}

// Main runs the tests, stops the shared server and exits. Call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if err := errors.Join(dropExamples(), stopShared()); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Server returns the shared server, which it starts at the first call. It fails
// the test when that cannot be.
func Server(tb testing.TB) *localpg.Server {
	tb.Helper()
	server, _, err := sharedServer()
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

// sharedServer starts the shared server at its first call, and returns it with
// the name of the database to copy.
func sharedServer() (*localpg.Server, string, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.started {
		shared.started = true
		shared.server, shared.template, shared.err = startShared()
	}
	return shared.server, shared.template, shared.err
}

func startShared() (*localpg.Server, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	var o localpg.Options
	if !durable() {
		o = localpg.Options{InMemory: true, Settings: map[string]string{"fsync": "off"}}
	}
	server, err := localpg.Start(ctx, o)
	if err != nil {
		return nil, "", err
	}
	template, err := createTemplate(ctx, server)
	if err == nil {
		err = remember(server)
	}
	if err != nil {
		return nil, "", errors.Join(err, server.Stop())
	}
	return server, template, nil
}

func stopShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		return nil
	}
	return errors.Join(dropTemplate(shared.server, shared.template), shared.server.Stop())
}

// Dedicated starts a server for this test alone, to be restarted, killed or
// reconfigured; never one of kind url. It is stopped at cleanup.
func Dedicated(tb testing.TB, o localpg.Options) *localpg.Server {
	tb.Helper()
	o.Own = true
	o.InMemory = o.InMemory || !durable()
	if o.Logf == nil {
		o.Logf = tb.Logf
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	server, err := localpg.Start(ctx, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Stop(); err != nil {
			tb.Error(err)
		}
	})
	if err := remember(server); err != nil {
		tb.Fatal(err)
	}
	return server
}
