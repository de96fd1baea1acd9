package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// embeddedVersion is what kind embedded downloads.
const embeddedVersion = embeddedpostgres.V17

// startEmbedded runs binaries that embedded-postgres downloads. It runs them as
// a local server: embedded-postgres itself would leave its server running when
// this process is killed.
func startEmbedded(ctx context.Context, o Options) (*Server, error) {
	if os.Geteuid() == 0 {
		return nil, fmt.Errorf("%w: it does not work as root", errAbsent)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAbsent, err)
	}
	home := filepath.Join(cache, "pgcoord", "postgres-"+string(embeddedVersion))
	bin, err := inspect(ctx, filepath.Join(home, "bin"))
	if err != nil {
		if err := download(ctx, home, embeddedpostgres.DefaultConfig(), o); err != nil {
			return nil, fmt.Errorf("%w: %w", errAbsent, err)
		}
		if bin, err = inspect(ctx, filepath.Join(home, "bin")); err != nil {
			return nil, err
		}
	}
	return startBinaries(ctx, KindEmbedded, bin, o)
}

// download fetches the binaries into home. Another process may do so at once:
// the first to finish gives its copy the name.
func download(ctx context.Context, home string, config embeddedpostgres.Config, o Options) error {
	o.logf("localpg: downloading PostgreSQL %s to %s", embeddedVersion, home)
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(home), "download-")
	if err != nil {
		return err
	}
	finished := make(chan error, 1)
	go func() { // it takes no context; left alone, it cleans up after itself
		defer os.RemoveAll(fresh)
		err := fetch(filepath.Join(fresh, "postgres"), config)
		if err == nil && ctx.Err() == nil {
			err = os.Rename(filepath.Join(fresh, "postgres"), home)
			if _, statErr := os.Stat(filepath.Join(home, "bin")); statErr == nil {
				err = nil // ours, or that of another process
			}
		}
		finished <- err
	}()
	select {
	case err := <-finished:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetch has embedded-postgres download and unpack. It does so only on the way
// to a running server, which is stopped at once.
func fetch(binaries string, config embeddedpostgres.Config) (err error) {
	port, err := freePort()
	if err != nil {
		return err
	}
	f, err := newFolder(account{}, false) // a sweep ends its server if we are killed
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.remove()) }()
	server := embeddedpostgres.NewDatabase(config.
		Version(embeddedVersion).Port(uint32(port)).Logger(io.Discard).
		StartParameters(map[string]string{"unix_socket_directories": ""}).
		BinariesPath(binaries).CachePath(filepath.Join(f.path, "cache")).
		RuntimePath(filepath.Join(f.path, "runtime")).DataPath(f.data()))
	if err := server.Start(); err != nil {
		return fmt.Errorf("embedded-postgres: %w", err)
	}
	return server.Stop()
}
