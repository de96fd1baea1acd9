package doccheck

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// pair is a primary, its standby, and a migrated database on both.
type pair struct {
	primary, standby *localpg.Server
	database         string
}

func newPair(t *testing.T, ctx context.Context) pair {
	t.Helper()
	primary := pgtest.Dedicated(t, localpg.Options{InMemory: true})
	config, err := pgx.ParseConfig(pgtest.DSNOn(t, primary))
	if err != nil {
		t.Fatal(err)
	}
	standby, err := primary.Standby(ctx, localpg.Options{InMemory: true})
	if errors.Is(err, localpg.ErrForeign) {
		t.Skip("a standby needs PostgreSQL's own binaries")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Stop(); err != nil {
			t.Error(err)
		}
	})
	return pair{primary, standby, config.Database}
}

// follows waits until the standby has the grant of token.
func follows(t *testing.T, ctx context.Context, standby *pgxpool.Pool, token int64) {
	t.Helper()
	pgtest.Eventually(t, 20*time.Second, "the standby has the grant", func() bool {
		return value[int64](t, ctx, standby, "SELECT coalesce(max(token), 0) FROM pgcoord.task_locks") == token
	})
}

func promote(t *testing.T, ctx context.Context, standby *pgxpool.Pool) {
	t.Helper()
	if !value[bool](t, ctx, standby, "SELECT pg_promote()") {
		t.Fatal("not promoted")
	}
}

// The primary is gone; the holder's DSN names both hosts.
func TestClaimSurvivesAFailover(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newPair(t, ctx)
	standby := pgtest.Pool(t, p.standby.DSN(p.database))
	second := standby.Config().ConnConfig
	first, err := pgx.ParseConfig(p.primary.DSN(p.database))
	if err != nil {
		t.Fatal(err)
	}
	both := pgtest.Pool(t, fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d,127.0.0.1:%d/%s?sslmode=disable&target_session_attrs=read-write",
		second.User, second.Password, first.Port, second.Port, p.database))
	locks, err := uniquelock.New(both, uniquelock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close(ctx)
	lease, err := locks.TryLock(ctx, "k", uniquelock.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	follows(t, ctx, standby, lease.Token())
	if err := p.primary.Stop(); err != nil {
		t.Fatal(err)
	}
	promote(t, ctx, standby)

	if err := lease.BeginFunc(ctx, func(pgx.Tx) error { return nil }); err != nil {
		t.Errorf("guarded transaction after the failover: %v", err)
	}
	if err := lease.Renew(ctx); err != nil {
		t.Errorf("renew after the failover: %v", err)
	}
	if _, err := locks.TryAcquire(ctx, "k"); !errors.Is(err, pgcoord.ErrHeld) {
		t.Errorf("try after the failover: %v, want held", err)
	}
}

// A standby is promoted that lacks the last grants: what was acknowledged is lost,
// and tokens exceed those of the lost grants all the same.
func TestTokensGrowOverAPromotion(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := newPair(t, ctx)
	old, follower := pgtest.Pool(t, p.primary.DSN(p.database)), pgtest.Pool(t, p.standby.DSN(p.database))

	known := tokenOf(t, ctx, old, "k")
	follows(t, ctx, follower, known)
	for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		if _, err := follower.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Eventually(t, 20*time.Second, "the standby follows no longer", func() bool {
		return value[int](t, ctx, old, "SELECT count(*) FROM pg_stat_replication") == 0
	})
	// As many draws as other keys would cause: a sequence logs 32 values ahead.
	value[int64](t, ctx, old, "SELECT max(nextval('pgcoord.fencing_token_seq')) FROM generate_series(1, 100)")
	lost := tokenOf(t, ctx, old, "k")
	promote(t, ctx, follower)
	if got := value[int64](t, ctx, follower, "SELECT max(token) FROM pgcoord.task_locks"); got != known {
		t.Fatalf("token %d on the promoted server, want %d: nothing was lost", got, known)
	}
	for _, key := range []string{"k", "another"} {
		if got := tokenOf(t, ctx, follower, key); got <= lost {
			t.Errorf("key %s: token %d, after %d before the promotion", key, got, lost)
		}
	}
}

// tokenOf claims key, releases it and returns the token. It waits: a release that
// the standby lacks leaves the key held until its TTL.
func tokenOf(t *testing.T, ctx context.Context, pool *pgxpool.Pool, key string) int64 {
	t.Helper()
	claim, err := newLocks(t, pool).Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.Release(ctx); err != nil {
		t.Fatal(err)
	}
	return claim.Token()
}

func newLocks(t *testing.T, pool *pgxpool.Pool) *uniquelock.Coordinator {
	t.Helper()
	locks, err := uniquelock.New(pool, uniquelock.Options{TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := locks.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return locks
}

func value[T any](t *testing.T, ctx context.Context, pool *pgxpool.Pool, sql string) (v T) {
	t.Helper()
	if err := pool.QueryRow(ctx, sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}
