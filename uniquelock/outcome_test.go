package uniquelock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/faultproxy"
	"github.com/pgcoord/pgcoord/internal/pgtest"
	"github.com/pgcoord/pgcoord/uniquelock"
)

// faulty is a database with a coordinator behind a proxy.
type faulty struct {
	t     *testing.T
	ctx   context.Context
	pool  *pgxpool.Pool // past the proxy
	proxy *faultproxy.Proxy
	c     *uniquelock.Coordinator
}

// newFaulty has the coordinator use conns connections of its pool. What it asks
// once it has asked.
func newFaulty(t *testing.T, conns int32) *faulty {
	t.Helper()
	dsn := pgtest.DSN(t)
	f := &faulty{t: t, ctx: within(t, 30*time.Second), pool: pgtest.Pool(t, dsn), proxy: pgtest.Proxy(t, dsn)}
	f.c = newCoordinator(t, pgtest.Pool(t, f.proxy.DSN(dsn), func(c *pgxpool.Config) { c.MaxConns = conns }), uniquelock.Options{TTL: time.Hour})
	if err := tryLock(t, f.c, "k", uniquelock.LockOptions{}).Release(f.ctx); err != nil {
		t.Fatal(err)
	}
	exec(t, f.pool, "CREATE TABLE effects (n int)")
	t.Cleanup(func() { // before the coordinator and its pool are closed
		f.proxy.OnClientMessage(nil)
		f.proxy.Refuse(false)
		f.proxy.Delay(0)
		f.proxy.Thaw()
	})
	return f
}

// atNext does action to the next statement on the lock table that begins with word.
// What the coordinator does beside, to listen for instance, goes on.
func (f *faulty) atNext(word string, action faultproxy.Action) (met <-chan struct{}) {
	return f.proxy.AtNext(func(m faultproxy.Message) bool {
		return m.Runs(word) && strings.Contains(m.SQL, "pgcoord.task_locks")
	}, action)
}

func (f *faulty) effect(tx pgx.Tx) error {
	_, err := tx.Exec(f.ctx, "INSERT INTO effects VALUES (1)")
	return err
}

func (f *faulty) wantEffects(want int) {
	f.t.Helper()
	if n := scan[int](f.t, f.pool, "SELECT count(*) FROM effects"); n != want {
		f.t.Errorf("%d effects, want %d", n, want)
	}
}

// holdCommits makes every commit with an effect wait, as for a slow disk, until
// the returned function is called. As with a slow disk, a cancel request, which
// pgx sends when a connection breaks, does not help.
func (f *faulty) holdCommits() (letGo func()) {
	f.t.Helper()
	exec(f.t, f.pool, `
		CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			LOOP
				BEGIN
					PERFORM pg_advisory_xact_lock(1);
					RETURN NULL;
				EXCEPTION WHEN query_canceled THEN
				END;
			END LOOP;
		END $$;
		CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold()`)
	tx, err := f.pool.Begin(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(f.ctx)) })
	if _, err := tx.Exec(f.ctx, "SELECT pg_advisory_xact_lock(1)"); err != nil {
		f.t.Fatal(err)
	}
	return func() { _ = tx.Rollback(f.ctx) }
}

// committing returns the process of the server that is held in its commit.
func (f *faulty) committing() (pid int) {
	f.t.Helper()
	pgtest.Eventually(f.t, 5*time.Second, "a commit is under way", func() bool {
		pid = scan[int](f.t, f.pool, `SELECT coalesce(max(pid), 0) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'advisory'`)
		return pid != 0
	})
	return pid
}

// Complete finds out by itself what became of a commit whose reply was lost.
func TestCompleteAsksAfterALostReply(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, 1)
	lease := tryLock(t, f.c, "k", uniquelock.LockOptions{})
	f.proxy.AtNext(faultproxy.Message.Commit, faultproxy.DropAndCut)
	if err := lease.Complete(f.ctx, f.effect); err == nil || errors.Is(err, pgcoord.ErrOutcomeUnknown) || errors.Is(err, pgcoord.ErrLost) {
		t.Errorf("a commit that never arrived: %v, want a definite failure", err)
	}
	f.wantEffects(0)
	f.proxy.AtNext(faultproxy.Message.Commit, faultproxy.ForwardThenCut)
	if err := lease.Complete(f.ctx, f.effect); err != nil {
		t.Errorf("a commit whose reply was lost: %v", err)
	}
	f.wantEffects(1)
}

// Nothing is said of a commit while it is still under way on the server.
func TestCompleteWaitsForItsCommit(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, 1)
	letGo := f.holdCommits()
	lease := tryLock(t, f.c, "k", uniquelock.LockOptions{})
	sent := f.proxy.AtNext(faultproxy.Message.Commit, faultproxy.ForwardThenFreeze)
	done := make(chan error, 1)
	go func() { done <- lease.Complete(f.ctx, f.effect) }()
	<-sent
	f.committing()
	f.proxy.Cut()
	select {
	case err := <-done:
		t.Fatalf("complete said of a commit under way: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	letGo()
	if err := <-done; err != nil {
		t.Errorf("complete: %v", err)
	}
	f.wantEffects(1)
}

// A server process that is ended in its commit does not tell how far it came.
func TestTerminatedInCommit(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, 1)
	letGo := f.holdCommits()
	lease := tryLock(t, f.c, "k", uniquelock.LockOptions{})
	done := make(chan error, 1)
	go func() { done <- lease.BeginFunc(pgcoord.WithOperation(f.ctx, "op"), f.effect) }()
	exec(t, f.pool, "SELECT pg_terminate_backend($1)", f.committing())
	if err := <-done; !errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("a commit whose server process was ended: %v", err)
	}
	letGo()
	if outcome, err := f.c.Resolve(f.ctx, "k", "op"); err != nil || outcome != pgcoord.NotApplied {
		t.Errorf("resolve: %v, %v", outcome, err)
	}
	f.wantEffects(0)
}

// A release that was carried out, but of which no reply could be had, is not said
// to have failed.
func TestUnansweredRelease(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, 1)
	lease := tryLock(t, f.c, "k", uniquelock.LockOptions{})
	f.proxy.Refuse(true)
	f.atNext("UPDATE", faultproxy.ForwardThenCut)
	if err := lease.Release(f.ctx); !errors.Is(err, pgcoord.ErrOutcomeUnknown) {
		t.Errorf("release without a reply: %v", err)
	}
	if scan[bool](t, f.pool, "SELECT held FROM pgcoord.task_locks") {
		t.Fatal("the key was not released")
	}
	f.proxy.Refuse(false)
	if err := lease.Release(f.ctx); err != nil {
		t.Errorf("release again: %v", err)
	}
}

// The library sends a statement whose reply was lost again, and knows its effect
// as its own.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(f *faulty, cut func(word string)) error{
		"try": func(f *faulty, cut func(string)) error {
			cut("WITH")
			lease, err := f.c.TryLock(f.ctx, "k", uniquelock.LockOptions{})
			if err == nil {
				err = errors.Join(lease.BeginFunc(f.ctx, nil), lease.Release(f.ctx))
			}
			return err
		},
		"release": func(f *faulty, cut func(string)) error {
			lease := tryLock(f.t, f.c, "k", uniquelock.LockOptions{})
			cut("UPDATE")
			return lease.Release(f.ctx)
		},
		"complete": func(f *faulty, cut func(string)) error {
			lease := tryLock(f.t, f.c, "k", uniquelock.LockOptions{})
			cut("WITH")
			return lease.Complete(f.ctx, nil)
		},
		"hand-over": func(f *faulty, cut func(string)) error {
			lease := tryLock(f.t, f.c, "k", uniquelock.LockOptions{})
			next := async(f.ctx, f.c, "k")
			pgtest.Eventually(f.t, 5*time.Second, "a waiter is in line", func() bool { return uniquelock.Waiting(f.c, "k") == 1 })
			cut("WITH")
			if err := lease.Release(f.ctx); err != nil {
				return err
			}
			r := <-next
			if r.err != nil {
				return r.err
			}
			return errors.Join(r.lease.BeginFunc(f.ctx, nil), r.lease.Release(f.ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, 1)
			var met <-chan struct{}
			err := call(f, func(word string) {
				met = f.atNext(word, faultproxy.ForwardThenCut)
			})
			if err != nil {
				t.Errorf("a call of which one reply was lost: %v", err)
			}
			select {
			case <-met:
			default:
				t.Error("no reply was lost")
			}
			tryLock(t, newCoordinator(t, f.pool, uniquelock.Options{}), "k", uniquelock.LockOptions{})
		})
	}
}

// Effects under an operation id happen once, in each form of a guarded transaction.
func TestOperations(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(ctx context.Context, f *faulty) error{
		"begin func": func(ctx context.Context, f *faulty) error {
			return tryLock(f.t, f.c, "k", uniquelock.LockOptions{}).BeginFunc(ctx, f.effect)
		},
		"complete": func(ctx context.Context, f *faulty) error {
			return tryLock(f.t, f.c, "k", uniquelock.LockOptions{}).Complete(ctx, f.effect)
		},
		"complete without a function": func(ctx context.Context, f *faulty) error {
			exec(f.t, f.pool, "INSERT INTO effects SELECT 1 WHERE NOT EXISTS (SELECT FROM effects)")
			return tryLock(f.t, f.c, "k", uniquelock.LockOptions{}).Complete(ctx, nil)
		},
		"one transaction": func(ctx context.Context, f *faulty) error { return f.c.TryDoTx(ctx, "k", f.effect) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, 1)
			op := pgcoord.WithOperation(f.ctx, "op")
			if err := run(op, f); err != nil {
				t.Fatal(err)
			}
			exec(t, f.pool, "UPDATE pgcoord.task_locks SET held = false, expires_at = '-infinity'")
			if err := run(op, f); !errors.Is(err, pgcoord.ErrDone) {
				t.Errorf("the same operation again: %v", err)
			}
			if outcome, err := f.c.Resolve(f.ctx, "k", "op"); err != nil || outcome != pgcoord.Applied {
				t.Errorf("resolve: %v, %v", outcome, err)
			}
			f.wantEffects(1)
		})
	}
}
