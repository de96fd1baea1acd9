package pgtest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/faultproxy"
)

// Proxy starts a proxy before the server of dsn and closes it at cleanup. Use
// its DSN method for the way through it.
func Proxy(tb testing.TB, dsn string) *faultproxy.Proxy {
	tb.Helper()
	address, err := addressOf(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	proxy, err := faultproxy.New(address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(proxy.Close)
	return proxy
}

// addressOf returns the host:port of a server.
func addressOf(dsn string) (string, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s:%d", config.Host, config.Port), nil
}
