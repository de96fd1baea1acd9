package faultproxy_test

import (
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/faultproxy"
)

func TestDSN(t *testing.T) {
	proxy, err := faultproxy.New("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	for _, dsn := range []string{
		"postgres://u:p%40@db.example:5433/d?sslmode=require&application_name=a",
		"postgresql://u:p%40@a.example:1,b.example:2/d?application_name=a",
		"postgres://u:p%40@/d?host=/run/postgresql&port=5&application_name=a",
		"host=/run/postgresql user=u password='p@' dbname=d port=7 sslmode=verify-full application_name=a",
	} {
		config, err := pgx.ParseConfig(proxy.DSN(dsn))
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		if got := config.Host + ":" + strconv.Itoa(int(config.Port)); got != proxy.Addr() {
			t.Errorf("%s: goes to %s, want %s", dsn, got, proxy.Addr())
		}
		if len(config.Fallbacks) != 0 || config.TLSConfig != nil {
			t.Errorf("%s: has fallbacks or TLS", dsn)
		}
		if config.User != "u" || config.Password != "p@" || config.Database != "d" || config.RuntimeParams["application_name"] != "a" {
			t.Errorf("%s: lost something: %+v", dsn, config)
		}
	}
}
