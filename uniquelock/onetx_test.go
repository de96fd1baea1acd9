package uniquelock_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// The one-transaction form: work, claim and its end are one commit.
func TestDoTx(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	exec(t, pool, "CREATE TABLE effects (n int)")
	effect := func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES (1)")
		return err
	}
	effects := func() int { return scan[int](t, pool, "SELECT count(*) FROM effects") }
	a, b := newCoordinator(t, pool, uniquelock.Options{}), newCoordinator(t, pool, uniquelock.Options{})
	once := newCoordinator(t, pool, uniquelock.Options{Once: true})

	var inside error
	err := a.TryDoTx(ctx, "k", func(tx pgx.Tx) error {
		inside = b.TryDoTx(ctx, "k", effect)
		return effect(tx)
	})
	if err != nil || !errors.Is(inside, pgcoord.ErrHeld) || effects() != 1 {
		t.Fatalf("%v; the other: %v; %d effects", err, inside, effects())
	}
	if err := a.TryDoTx(ctx, "k", func(tx pgx.Tx) error { return errors.Join(effect(tx), errors.New("no")) }); err == nil || effects() != 1 {
		t.Fatalf("a failed work: %v, %d effects", err, effects())
	}
	token := scan[int64](t, pool, "SELECT token FROM pgcoord.task_locks WHERE task_name = 'k'")
	lease := tryLock(t, b, "k", uniquelock.LockOptions{})
	if lease.Token() <= token {
		t.Errorf("token %d after %d", lease.Token(), token)
	}
	if err := a.TryDoTx(ctx, "k", effect); !errors.Is(err, pgcoord.ErrHeld) {
		t.Errorf("under a lease: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- a.DoTx(ctx, "k", effect) }()
	pgtest.Eventually(t, 5*time.Second, "it waits", func() bool { return uniquelock.Waiting(a, "k") == 1 })
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || effects() != 2 {
		t.Fatalf("after the release: %v, %d effects", err, effects())
	}
	tryLock(t, b, "k", uniquelock.LockOptions{}) // free

	if err := once.TryDoTx(ctx, "once", effect); err != nil {
		t.Fatal(err)
	}
	if err := once.TryDoTx(ctx, "once", effect); !errors.Is(err, pgcoord.ErrDone) || effects() != 3 {
		t.Fatalf("the second time: %v, %d effects", err, effects())
	}
	op := pgcoord.WithOperation(ctx, "op")
	for range 2 {
		err = a.TryDoTx(op, "named", effect)
	}
	if !errors.Is(err, pgcoord.ErrDone) || effects() != 4 {
		t.Errorf("the second time under one id: %v, %d effects", err, effects())
	}
	err = a.TryDoTx(ctx, "ends", func(tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, "COMMIT")
		return err
	})
	if err == nil {
		t.Error("a function that committed by itself went unnoticed")
	}
}

// Many at once: each effect once, never two inside.
func TestDoTxContended(t *testing.T) {
	t.Parallel()
	ctx := within(t, 60*time.Second)
	pool := newPool(t)
	exec(t, pool, "CREATE TABLE counter (n int)")
	exec(t, pool, "INSERT INTO counter VALUES (0)")
	var group sync.WaitGroup
	const processes, goroutines, rounds = 2, 4, 5
	for range processes {
		c := newCoordinator(t, pool, uniquelock.Options{})
		for range goroutines {
			group.Add(1)
			go func() {
				defer group.Done()
				for range rounds {
					err := c.DoTx(ctx, "k", func(tx pgx.Tx) error {
						var n int
						if err := tx.QueryRow(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
							return err
						}
						_, err := tx.Exec(ctx, "UPDATE counter SET n = $1", n+1)
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
			}()
		}
	}
	group.Wait()
	if n := scan[int](t, pool, "SELECT n FROM counter"); n != processes*goroutines*rounds {
		t.Errorf("counter %d, want %d", n, processes*goroutines*rounds)
	}
}
