package uniquelock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// Case 25 and its kind: what cannot work is refused with the name of the field,
// before anything is sent.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	if _, err := uniquelock.New(nil, uniquelock.Options{}); err == nil || !strings.Contains(err.Error(), "pool") {
		t.Errorf("nil pool: %v", err)
	}
	for field, opts := range map[string][]uniquelock.Options{
		"Options.TTL": {
			{TTL: -time.Second},
			{TTL: 400 * time.Nanosecond},
			{TTL: 49 * time.Millisecond},
			{TTL: 24*time.Hour + 1},
			{TTL: 290 * 365 * 24 * time.Hour},
		},
		"Options.IdleLimit": {{IdleLimit: -1}, {IdleLimit: time.Millisecond}, {IdleLimit: 25 * time.Hour}},
		"Options.MinHold":   {{MinHold: -1}, {MinHold: 25 * time.Hour}},
		"Options.Holder":    {{Holder: "a\x00b"}, {Holder: "a\xff"}, {Holder: strings.Repeat("h", 513)}},
	} {
		for _, o := range opts {
			if _, err := uniquelock.New(pool, o); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%+v: %v", o, err)
			}
		}
	}
	c := newCoordinator(t, pool, uniquelock.Options{})
	ctx := within(t, 20*time.Second)
	for field, opts := range map[string][]uniquelock.LockOptions{
		"LockOptions.TTL":     {{TTL: -time.Second}, {TTL: 1}, {TTL: 25 * time.Hour}},
		"LockOptions.MinHold": {{MinHold: -1}, {MinHold: 25 * time.Hour}},
		"LockOptions.Metadata": {
			{Metadata: map[string]string{"a": strings.Repeat("x", 5000)}},
			{Metadata: map[string]string{"a\x00": ""}},
			{Metadata: map[string]string{"a": "\xff"}},
		},
	} {
		for _, o := range opts {
			if _, err := c.TryLock(ctx, "k", o); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%+v: %v", o, err)
			}
			if _, err := c.Lock(ctx, "k", o); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%+v: %v", o, err)
			}
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 129), "a\x00", "\xff"} {
		if _, err := c.TryAcquire(pgcoord.WithGrantID(ctx, id), "k"); err == nil || !strings.Contains(err.Error(), "grant id") {
			t.Errorf("grant id %q: %v", id, err)
		}
		if _, err := c.Resolve(ctx, "k", id); err == nil || !strings.Contains(err.Error(), "operation id") {
			t.Errorf("operation id %q: %v", id, err)
		}
	}
	if n := scan[int](t, pool, "SELECT count(*) FROM pgcoord.task_locks"); n != 0 {
		t.Errorf("%d rows were made", n)
	}
}

// A pool that was closed, and a role that may not, say so.
func TestUnusablePool(t *testing.T) {
	t.Parallel()
	ctx := within(t, 20*time.Second)
	dsn := pgtest.DSN(t)
	closed := pgtest.Pool(t, dsn)
	c := newCoordinator(t, closed, uniquelock.Options{})
	closed.Close()
	if _, err := c.TryAcquire(ctx, "k"); err == nil || !strings.Contains(err.Error(), "closed pool") {
		t.Errorf("closed pool: %v", err)
	}

	nobody := newCoordinator(t, pgtest.Pool(t, dsn, pgtest.NewRole(t, dsn).Login), uniquelock.Options{})
	for _, err := range []error{second(nobody.TryAcquire(ctx, "k")), nobody.Verify(ctx), nobody.Break(ctx, "k", "")} {
		if err == nil || errors.Is(err, pgcoord.ErrHeld) || !strings.Contains(err.Error(), "docs/operations.md") {
			t.Errorf("role without grants: %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A role with the documented grants can do all that a service does.
func TestDocumentedRole(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	dsn := pgtest.DSN(t)
	pool := pgtest.Pool(t, dsn, pgtest.DocumentedRole(t, dsn).Login)
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	if err := a.Verify(ctx); err != nil {
		t.Error(err)
	}
	lease := tryLock(t, a, "k", uniquelock.LockOptions{})
	waiter := async(ctx, b, "k")
	pgtest.Eventually(t, 5*time.Second, "B waits", func() bool { return waiting(t, pool, "k") == 1 })
	for name, err := range map[string]error{
		"renew":   lease.Renew(ctx),
		"guard":   lease.BeginFunc(pgcoord.WithOperation(ctx, "op"), nil),
		"list":    second(a.List(ctx)),
		"resolve": second(a.Resolve(ctx, "k", "op")),
		"prune":   second(a.Prune(ctx, uniquelock.PruneOptions{Done: time.Hour, Operations: time.Hour})),
		"release": lease.Release(ctx),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := <-waiter
	if r.err != nil {
		t.Fatal(r.err)
	}
	if err := r.lease.Complete(ctx, nil); err != nil {
		t.Error(err)
	}
	tryLock(t, a, "k", uniquelock.LockOptions{})
	if err := b.Break(ctx, "k", "test"); err != nil {
		t.Error(err)
	}
}
