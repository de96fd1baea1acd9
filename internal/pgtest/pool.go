package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool opens a pool on dsn, after change has seen its configuration, and closes
// it at cleanup. The test fails when a connection is still in use then.
func Pool(tb testing.TB, dsn string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	for _, c := range change {
		c(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closePool(tb, pool) })
	return pool
}

// closePool does not wait for ever for a connection that was never given back.
func closePool(tb testing.TB, pool *pgxpool.Pool) {
	const limit = 10 * time.Second
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(limit):
		tb.Errorf("pgtest: %d connections of the pool are still in use %v after the test", pool.Stat().AcquiredConns(), limit)
	}
}

// Eventually polls ok until it is true, and fails the test with what it waited
// for when that takes longer than within.
func Eventually(tb testing.TB, within time.Duration, what string, ok func() bool) {
	tb.Helper()
	const longest = 20 * time.Millisecond
	pause := time.Millisecond
	for deadline := time.Now().Add(within); !ok(); pause = min(2*pause, longest) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(pause)
	}
}
