package pgtest

import (
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/localpg"
)

// servers are those that this test binary has started, by host:port.
var servers sync.Map

func remember(server *localpg.Server) error {
	address, err := addressOf(server.DSN("postgres"))
	if err == nil {
		servers.Store(address, server)
	}
	return err
}

// LogErrors returns what the server has logged as ERROR or worse for the
// database of dsn since that was made; each with its details and statement. A
// failure that a client has seen is in it.
//
// A server that was found running (kind url) shows its log to nobody; then
// there is nothing to return and the test is told so.
func LogErrors(tb testing.TB, dsn string) []string {
	tb.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	server := Server(tb) // also for a way through a proxy: names are unique
	address, err := addressOf(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	if own, ok := servers.Load(address); ok {
		server = own.(*localpg.Server)
	}
	if server.Kind() == localpg.KindURL {
		tb.Logf("pgtest: the log of %v cannot be read: errors in it go unseen", server)
		return nil
	}
	return errorsOf(server.Log(), config.Database)
}

// entry is the first line of what is logged, as localpg.LogPrefix makes it.
var entry = regexp.MustCompile(`^\S+ \S+ \S+ \[(\d+)\] db=(\S*) state=\S+ ([A-Z]+\d*):  `)

// errorsOf returns the errors of one database. What follows an error and comes
// from the same process belongs to it; so do lines without a prefix.
func errorsOf(log, database string) (found []string) {
	inError, process := false, ""
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\n")
		m := entry.FindStringSubmatch(line)
		switch {
		case m == nil:
			if inError {
				found[len(found)-1] += "\n" + line
			}
		case m[3] == "ERROR" || m[3] == "FATAL" || m[3] == "PANIC":
			if inError = m[2] == database; inError {
				process = m[1]
				found = append(found, line)
			}
		case inError && m[1] == process && detail[m[3]]:
			found[len(found)-1] += "\n" + line
		default:
			inError = false
		}
	}
	return found
}

// detail are the labels of lines that belong to the one before.
var detail = map[string]bool{
	"DETAIL": true, "HINT": true, "QUERY": true, "CONTEXT": true, "LOCATION": true, "BACKTRACE": true, "STATEMENT": true,
}
