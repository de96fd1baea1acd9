package doccheck

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// What docs/operations.md tells an operator to run does what it says there.

// Each query for monitoring shows something where there is a holder inside a
// guarded transaction, and one who waits for it.
func TestMonitoring(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pool := pgtest.Pool(t, pgtest.DSN(t))
	holder, waiter := newLocks(t, pool), newLocks(t, pool)
	lease, err := holder.TryLock(ctx, "k", uniquelock.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		next, err := waiter.Acquire(ctx, "k")
		if err == nil {
			err = next.Release(ctx)
		}
		got <- err
	}()
	pgtest.Eventually(t, 20*time.Second, "another one waits", func() bool {
		return value[int](t, ctx, pool, "SELECT count(*) FROM pgcoord.task_waiters") == 1
	})
	err = lease.BeginFunc(ctx, func(pgx.Tx) error {
		for _, sql := range section(t, "Monitoring") {
			rows, err := pool.Query(ctx, sql)
			if err != nil {
				return err
			}
			shown, err := pgx.CollectRows(rows, pgx.RowToMap)
			if err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
			t.Log(shown)
			if len(shown) == 0 {
				t.Errorf("shows nothing: %s", sql)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestTokensThatOthersRemember(t *testing.T) {
	ctx := t.Context()
	pool := pgtest.Pool(t, pgtest.DSN(t))
	sql := section(t, "Tokens that others remember")[0]
	remembered, err := strconv.ParseInt(regexp.MustCompile(`\d{6,}`).FindString(sql), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if early := tokenOf(t, ctx, pool, "k"); early > remembered {
		t.Fatalf("token %d exceeds the example's %d anyway", early, remembered)
	}
	for range 2 { // again does no harm
		if _, err := pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
		if token := tokenOf(t, ctx, pool, "k"); token <= remembered {
			t.Errorf("token %d, want more than %d", token, remembered)
		}
	}
	if err := newLocks(t, pool).Verify(ctx); err != nil {
		t.Error(err)
	}
}

func TestSequenceThatIsUsedUp(t *testing.T) {
	ctx := t.Context()
	pool := pgtest.Pool(t, pgtest.DSN(t))
	if _, err := pool.Exec(ctx, "SELECT setval('pgcoord.fencing_token_seq', 1099511627774)"); err != nil {
		t.Fatal(err)
	}
	last := tokenOf(t, ctx, pool, "k")
	locks := newLocks(t, pool)
	_, err := locks.TryAcquire(ctx, "another")
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "2200H" || !strings.Contains(err.Error(), "docs/operations.md") {
		t.Fatalf("a grant without a number: %v, want 2200H and where to read on", err)
	}
	if _, err := pool.Exec(ctx, section(t, "A sequence that is used up")[0], pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"another", "k"} {
		if token := tokenOf(t, ctx, pool, key); token <= last {
			t.Errorf("key %s: token %d after %d", key, token, last)
		}
	}
	if err := locks.Verify(ctx); err != nil {
		t.Error(err)
	}
}
