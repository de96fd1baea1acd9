package pgcoord

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Coordinator grants claims on keys. Package uniquelock implements it, and each
// strategy to come will; a service that depends on this interface alone can
// change the strategy without changing its work.
//
// A Coordinator is safe for concurrent use.
type Coordinator interface {
	// TryAcquire claims key at once and never waits for another holder.
	//
	// It fails with [ErrHeld] (as a *[HeldError]) while another claim is
	// current, [ErrDone] when the work of the key is complete, [ErrNotFound]
	// when the strategy claims existing rows and there is none, and
	// [ErrInvalidKey] when key can name nothing.
	//
	// A failed call leaves no claim behind. A call that was cut off on its
	// way frees what it may have won within the claim's TTL at the latest.
	TryAcquire(ctx context.Context, key string) (Claim, error)

	// Acquire waits until key is free and claims it.
	//
	// It fails as TryAcquire does, except that it waits where that says
	// [ErrHeld]: until ctx ends, which gives an error that matches ctx.Err().
	//
	// A failed call leaves neither a claim nor a place in a queue behind.
	Acquire(ctx context.Context, key string) (Claim, error)
}

// Claim is one exclusive hold on a key, from its grant to Complete or Release,
// or until it is lost. Its methods are safe for concurrent use.
type Claim interface {
	// Key returns the name of what is claimed.
	Key() string

	// Token returns the claim's fencing token: positive, and greater than
	// that of every earlier claim on the key.
	Token() int64

	// Lost returns a channel that is closed when the claim can no longer be
	// relied on. It is a courtesy that stops useless work early; what keeps
	// effects apart is BeginFunc and Complete.
	Lost() <-chan struct{}

	// BeginFunc runs fn in a guarded transaction and commits it only while
	// the claim is current. It follows pgx.BeginFunc: fn must neither commit
	// nor roll back, and an error or panic of fn rolls back.
	//
	// It fails with [ErrLost] when the claim is no longer current, with
	// [ErrDone] when the context names an operation (see [WithOperation])
	// that was applied before, with fn's own error, with an error that
	// matches ctx.Err() when ctx ended before the commit was sent, or with
	// [ErrOutcomeUnknown] when the reply to the commit did not arrive.
	//
	// After any error but ErrOutcomeUnknown nothing of fn is stored.
	BeginFunc(ctx context.Context, fn func(pgx.Tx) error) error

	// Complete ends the claim as work done: the writes of fn, which may be
	// nil, and the end of the claim are one commit.
	//
	// It fails as BeginFunc does, and with [ErrDone] when this claim was
	// completed before. It waits for the claim's open guarded transactions.
	//
	// After a definite failure the claim stands as before and nothing of fn
	// is stored.
	Complete(ctx context.Context, fn func(pgx.Tx) error) error

	// Release ends the claim as work not done: the key is free for the next
	// one. It waits for the claim's open guarded transactions.
	//
	// It fails with [ErrLost] when the claim was lost before, and with
	// [ErrOutcomeUnknown] when the reply did not arrive. A repetition after
	// success, or after Complete, returns nil and changes nothing.
	Release(ctx context.Context) error
}

// Resolver tells what became of an operation whose outcome was unknown. Every
// coordinator of this module implements it.
type Resolver interface {
	// Resolve answers, for good, whether the operation id on key was applied.
	// Where it was not, the id is withdrawn: a transaction of it that is
	// still on its way is refused, and so is a later one under the same id,
	// with [ErrConflict]. To have the operation applied instead, repeat it
	// under the same id.
	//
	// It waits, for 10 s at most, for a transaction under the id that is
	// open. It fails when that stays open, and when the database cannot
	// answer within ctx; nothing is decided then.
	Resolve(ctx context.Context, key, id string) (Outcome, error)
}

// Outcome is the definite answer of [Resolver].
type Outcome int

const (
	// NotApplied means that the operation has had no effect and never will.
	NotApplied Outcome = iota
	// Applied means that the operation's transaction has committed.
	Applied
)

// String returns "applied" or "not applied".
func (o Outcome) String() string {
	if o == Applied {
		return "applied"
	}
	return "not applied"
}
