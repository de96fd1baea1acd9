package localpg

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// foreign is a server that somebody else runs.
type foreign struct{ url string }

func startURL(ctx context.Context, _ Options) (*Server, error) {
	dsn := os.Getenv(EnvURL)
	if dsn == "" {
		return nil, fmt.Errorf("%w: %s is not set", errAbsent, EnvURL)
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvURL, err)
	}
	version, err := askVersion(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", EnvURL, err)
	}
	origin := fmt.Sprintf("%s:%d", config.Host, config.Port)
	return &Server{kind: KindURL, version: version, origin: origin, backend: foreign{dsn}}, nil
}

func (f foreign) dsn(database string) string { return withDatabase(f.url, database) }

func (foreign) log() string { return "" }

func (foreign) restart(context.Context, Mode) error { return ErrForeign }

func (foreign) stop() error { return nil }

// withDatabase returns dsn, in either of the two forms, with another database.
func withDatabase(dsn, database string) string {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		escaped := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(database)
		return dsn + " dbname='" + escaped + "'" // the last one counts
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn // startURL has parsed it before
	}
	query := u.Query()
	query.Del("dbname")
	query.Del("database")
	u.RawQuery = query.Encode()
	u.Path, u.RawPath = "/"+database, ""
	return u.String()
}

// loopbackDSN returns the URL of a database on a server that Start has made.
func loopbackDSN(port int, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User("postgres"),
		Host:     fmt.Sprintf("127.0.0.1:%d", port),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// askVersion connects once and returns the version of the server.
func askVersion(ctx context.Context, dsn string) (string, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	version, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	if m := major(version); m < oldestMajor {
		return "", fmt.Errorf("the server is PostgreSQL %s; want %d or newer", version, oldestMajor)
	}
	return version, nil
}

// pollInterval is how often a start looks whether the server is ready.
const pollInterval = 2 * time.Millisecond
