package uniquelock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// Case L4: a stranger's uncommitted insert of the key delays nobody, and after its
// rollback the grant is whole.
func TestUncommittedKey(t *testing.T) {
	t.Parallel()
	ctx := within(t, 30*time.Second)
	pool := newPool(t)
	c := newCoordinator(t, pool, uniquelock.Options{TTL: time.Second})
	before := tryLock(t, c, "other", uniquelock.LockOptions{}).Token()
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "INSERT INTO pgcoord.task_locks (task_name) VALUES ('k')"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := c.TryAcquire(ctx, "k"); !errors.Is(err, pgcoord.ErrHeld) {
		t.Fatalf("try: %v", err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("the try took %v", took)
	}
	waiter := async(ctx, c, "k")
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	r := <-waiter
	if r.err != nil {
		t.Fatal(r.err)
	}
	if left := remaining(t, pool, "k"); left < 800*time.Millisecond || r.lease.Token() <= before {
		t.Errorf("token %d after %d, %v left of 1 s", r.lease.Token(), before, left)
	}
}

// Cases 48 and R8: keys that collide under common hashes are independent.
func TestCollidingKeys(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	c := newCoordinator(t, pool, uniquelock.Options{})
	for _, key := range []string{"job-126573", "job-30387", "plumless", "buckeroo"} {
		tryLock(t, c, key, uniquelock.LockOptions{})
	}
}
