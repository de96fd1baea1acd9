package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// The variables that Start reads.
const (
	// EnvURL names a server to use instead of starting one.
	EnvURL = "PGCOORD_DATABASE_URL"
	// EnvKind forces one kind: url, local, docker or embedded.
	EnvKind = "PGCOORD_POSTGRES"
	// EnvBin names the folder that has initdb and postgres.
	EnvBin = "PGCOORD_POSTGRES_BIN"
)

// errAbsent marks a kind that this machine does not have, so that Start goes on
// to the next; any other error ends the search.
var errAbsent = errors.New("not available")

type starter struct {
	kind  string
	start func(ctx context.Context, o Options) (*Server, error)
}

var starters = []starter{
	{KindURL, startURL},
	{KindLocal, startLocal},
	{KindDocker, startDocker},
	{KindEmbedded, startEmbedded},
}

const cure = "install PostgreSQL 14 to 18 (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17) " +
	"or Docker, name the folder of initdb and postgres in " + EnvBin + ", or a running server in " + EnvURL

// Start finds or starts a PostgreSQL and returns when it answers. ctx bounds
// the start only.
//
// It fails, and says what it tried and what to install, when this machine has
// none; and when the kind that PGCOORD_POSTGRES forces does not start.
func Start(ctx context.Context, o Options) (*Server, error) {
	forced := os.Getenv(EnvKind)
	if o.Own && forced == KindURL {
		forced = ""
	}
	sweep(o.logf)
	var tried []string
	known := forced == ""
	for _, s := range starters {
		if forced != "" && s.kind != forced || o.Own && s.kind == KindURL {
			continue
		}
		known = true
		server, err := s.start(ctx, o)
		if err == nil {
			o.logf("localpg: using %v", server)
			return server, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("localpg: %s: %w", s.kind, errors.Join(ctx.Err(), err))
		}
		if forced != "" {
			return nil, fmt.Errorf("localpg: %s=%s: %w", EnvKind, forced, err)
		}
		if !errors.Is(err, errAbsent) {
			return nil, fmt.Errorf("localpg: %s: %w", s.kind, err)
		}
		o.logf("localpg: %s: %v", s.kind, err)
		tried = append(tried, fmt.Sprintf("%s: %v", s.kind, err))
	}
	if !known {
		return nil, fmt.Errorf("localpg: %s=%q: want url, local, docker or embedded", EnvKind, forced)
	}
	return nil, fmt.Errorf("localpg: no PostgreSQL: %s; %s", strings.Join(tried, "; "), cure)
}
