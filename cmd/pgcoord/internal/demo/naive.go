package demo

import (
	"context"
	"fmt"
	"net/rpc"
	"time"
)

// naivePoll is how often a naive worker asks whether the lock is free.
const naivePoll = 10 * time.Millisecond

// naive is a lock with a time limit that each worker checks for itself.
type naive struct{ compareAndDelete bool }

func (n naive) about() about {
	a := about{
		name:    "naive-ttl",
		title:   "a lock with a time limit (SET key NX PX 1000)",
		pause:   "between check and write",
		expired: "1 s is over: A's lock has run out",
		moral:   "The check was right; the write came too late.",
	}
	if n.compareAndDelete {
		a.name = "naive-cad"
		a.title = "the usual repair: only its owner may delete the lock"
		a.moral = "The next lock is safe, the customer is not."
	}
	a.strategy = a.name
	return a
}

func (naive) referee(_ context.Context, _ *database, o order) (referee, error) {
	server, err := serveStore()
	if err != nil {
		return nil, err
	}
	return naiveReferee{server, o.key()}, nil
}

func (n naive) work(ctx context.Context, w *worker) error {
	store, err := rpc.Dial("tcp", w.Endpoint)
	if err != nil {
		return fmt.Errorf("lock server: %w", err)
	}
	defer store.Close()
	lock := naiveLock{store: store, key: w.order.key(), owner: w.Worker, compareAndDelete: n.compareAndDelete}
	if err := w.ready(ctx); err != nil {
		return err
	}
	if err := lock.take(ctx, w); err != nil {
		return err
	}
	paid, err := w.order.paid(ctx, w.pool)
	if err != nil {
		return err
	}
	if paid {
		w.say(kindEnded, 0, "finds it paid: skips")
		_, err := lock.drop()
		return err
	}
	mine, err := lock.mine()
	if err != nil {
		return err
	}
	if !mine {
		w.say(kindRefused, 0, "lock is gone: stops")
		return nil
	}
	w.say(kindChecked, 0, "unpaid, lock is mine")
	if err := w.point(ctx, 0); err != nil {
		return err
	}
	if err := w.order.chargeNow(ctx, w.pool, w.Worker, 0); err != nil {
		return err
	}
	w.say(kindCharged, 0, "CHARGES")
	text, err := lock.drop()
	if err != nil {
		return err
	}
	w.say(kindEnded, 0, text)
	return nil
}

// naiveLock is one worker's view of the lock.
type naiveLock struct {
	store            *rpc.Client
	key, owner       string
	compareAndDelete bool
}

// take asks again and again until the lock is the worker's.
func (l naiveLock) take(ctx context.Context, w *worker) error {
	for waiting := false; ; {
		var owner string
		if err := l.store.Call("Store.SetNX", SetArgs{l.key, l.owner, lockTTL}, &owner); err != nil {
			return err
		}
		if owner == l.owner {
			return w.took(ctx, 0, "takes the lock")
		}
		if !waiting {
			w.say(kindWaits, 0, "waits for "+owner)
			waiting = true
		}
		select {
		case <-time.After(naivePoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l naiveLock) mine() (bool, error) {
	var owner string
	err := l.store.Call("Store.Get", l.key, &owner)
	return owner == l.owner, err
}

// drop deletes the lock and says what that did.
func (l naiveLock) drop() (string, error) {
	args := DeleteArgs{Key: l.key}
	if l.compareAndDelete {
		args.IfValue = l.owner
	}
	var reply DeleteReply
	if err := l.store.Call("Store.Delete", args, &reply); err != nil {
		return "", err
	}
	switch {
	case reply.Found == "":
		return "its lock is gone", nil
	case reply.Found == l.owner:
		return "deletes its lock", nil
	case reply.Deleted:
		return "deletes " + reply.Found + "'s lock!", nil
	default:
		return "leaves " + reply.Found + "'s lock alone", nil
	}
}

type naiveReferee struct {
	*storeServer
	key string
}

func (r naiveReferee) endpoint() string { return r.listener.Addr().String() }

func (r naiveReferee) over(context.Context, int64) (bool, error) {
	var owner string
	err := r.store.Get(r.key, &owner)
	return owner != pausedWorker, err
}
