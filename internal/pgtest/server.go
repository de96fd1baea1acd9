package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord/internal/localpg"
)

// startLimit bounds the start of a server, and each statement on its own behalf.
const startLimit = time.Minute

// EnvFsync turns fsync on for the shared server, as "on": slower, and as a
// server in use has it. Dedicated servers have it unless told otherwise.
const EnvFsync = "PGCOORD_TEST_FSYNC"

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
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Server returns the shared server, which it starts at the first call. It fails
// the test when that cannot be.
func Server(tb testing.TB) *localpg.Server {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.started {
		shared.started = true
		shared.server, shared.template, shared.err = startShared()
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

func startShared() (*localpg.Server, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	settings := map[string]string{}
	if os.Getenv(EnvFsync) != "on" {
		settings["fsync"] = "off"
	}
	server, err := localpg.Start(ctx, localpg.Options{Settings: settings})
	if err != nil {
		return nil, "", err
	}
	template, err := createTemplate(ctx, server)
	if err != nil {
		_ = server.Stop()
		return nil, "", err
	}
	return server, template, nil
}

func stopShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		return nil
	}
	if err := dropTemplate(shared.server, shared.template); err != nil {
		return err
	}
	return shared.server.Stop()
}

// Dedicated starts a server for this test alone, to be restarted, killed or
// reconfigured; never one of kind url. It is stopped at cleanup.
func Dedicated(tb testing.TB, o localpg.Options) *localpg.Server {
	tb.Helper()
	o.Own = true
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
	return server
}
