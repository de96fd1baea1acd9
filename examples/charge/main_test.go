package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/faultproxy"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// asProgram makes the test binary the program.
const asProgram = "EXAMPLE_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	pgtest.Main(m)
}

func newShop(t *testing.T) (*pgxpool.Pool, string) {
	t.Helper()
	dsn := pgtest.DSN(t)
	pool := pgtest.Pool(t, dsn)
	_, err := pool.Exec(t.Context(), `
		CREATE TABLE orders (id bigint PRIMARY KEY, amount numeric NOT NULL);
		CREATE TABLE charges (order_id bigint NOT NULL, amount numeric NOT NULL);
		INSERT INTO orders VALUES (1001, 49.90)`)
	if err != nil {
		t.Fatal(err)
	}
	return pool, dsn
}

func wantCharges(t *testing.T, pool *pgxpool.Pool, want int) {
	t.Helper()
	var n int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM charges").Scan(&n); err != nil || n != want {
		t.Errorf("%d charges, %v; want %d", n, err, want)
	}
}

func TestRepeatedRequest(t *testing.T) {
	t.Parallel()
	pool, dsn := newShop(t)
	for _, request := range []string{"a", "a", "b", "a"} {
		cmd := exec.Command(os.Args[0], "-order", "1001", "-request", request)
		cmd.Env = append(os.Environ(), asProgram+"=1", "DATABASE_URL="+dsn)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	wantCharges(t, pool, 2)
}

// The reply to the commit, or the commit itself, is lost.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]faultproxy.Action{
		"reply":  faultproxy.ForwardThenCut,
		"commit": faultproxy.DropAndCut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, dsn := newShop(t)
			proxy := pgtest.Proxy(t, dsn)
			locks, err := uniquelock.New(pgtest.Pool(t, proxy.DSN(dsn)), uniquelock.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close(context.Background())
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()

			cut := proxy.AtNext(faultproxy.Message.Commit, action)
			if err := charge(ctx, locks, 1001, "a"); err != nil {
				t.Error(err)
			}
			<-cut
			wantCharges(t, pool, 1)
		})
	}
}
