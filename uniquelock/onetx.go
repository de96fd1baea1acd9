package uniquelock

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/guard"
	"github.com/pgcoord/pgcoord/internal/operation"
	"github.com/pgcoord/pgcoord/internal/pgerr"
)

// TryDoTx takes key, runs fn and frees the key (or marks it done, with
// Options.Once) in a single transaction, for work that is short and stays in the
// database. Nobody sees a lease: the lock of the row is the claim, so it needs no
// renewal and ends with its connection, or with Options.IdleLimit.
//
// It fails with pgcoord.ErrHeld or pgcoord.ErrDone at once, or as
// Claim.BeginFunc does. After any error but pgcoord.ErrOutcomeUnknown nothing of
// fn is stored and the key is as before.
func (c *Coordinator) TryDoTx(ctx context.Context, key string, fn func(pgx.Tx) error) error {
	if err := c.calls.Enter(); err != nil {
		return describe("try in one transaction", key, err)
	}
	defer c.calls.Leave()
	r, err := c.newRequest(ctx, key, LockOptions{})
	if err == nil {
		err = c.oneTx(ctx, r, fn)
	}
	return describe("try in one transaction", key, err)
}

// DoTx is TryDoTx, but waits until key is free or ctx ends. Where it had to wait,
// it runs fn under a lease that ends with the transaction.
func (c *Coordinator) DoTx(ctx context.Context, key string, fn func(pgx.Tx) error) error {
	if err := c.calls.Enter(); err != nil {
		return describe("in one transaction", key, err)
	}
	defer c.calls.Leave()
	r, err := c.newRequest(ctx, key, LockOptions{})
	if err != nil {
		return describe("in one transaction", key, err)
	}
	err = c.oneTx(ctx, r, fn)
	if !errors.Is(err, pgcoord.ErrHeld) || pgerr.FromCaller(err) {
		return describe("in one transaction", key, err)
	}
	// Contended: stand in line for a lease, and end that with the transaction.
	lease, err := c.waitInLine(ctx, r, nil)
	if err != nil {
		return describe("in one transaction", key, err)
	}
	// Deferred, so that a panic and runtime.Goexit in fn end the lease too: nobody
	// else knows of it.
	completed := false
	defer func() {
		if !completed {
			c.abandon(lease)
		}
	}()
	err = lease.Complete(ctx, fn)
	completed = err == nil
	return err
}

func (c *Coordinator) oneTx(ctx context.Context, r *request, fn func(pgx.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.ground.check(ctx, c); err != nil {
		return err
	}
	id, named, err := operation.From(ctx, domain, r.key)
	if err != nil {
		return err
	}
	spec := guard.Spec{Lock: guard.Statement{SQL: oneTxSQL, Args: []any{
		r.key, r.claimID, c.opts.Holder, strconv.FormatInt(c.opts.IdleLimit.Milliseconds(), 10),
		r.terms.minHold.Microseconds(), c.opts.Once,
	}}}
	if named {
		spec.Operation = &id
	}
	for seeded := false; ; seeded = true {
		err := guard.Run(ctx, c.pool, spec, fn)
		if !errors.Is(err, guard.ErrRefused) {
			if err == nil {
				c.lines.WakeFirst(r.key)
			}
			return err
		}
		seen, err := c.see(ctx, r.key)
		switch {
		case errors.Is(err, pgx.ErrNoRows) && !seeded:
			if err := c.seed(ctx, r.key); err != nil {
				return err
			}
		case errors.Is(err, pgx.ErrNoRows):
			return &pgcoord.HeldError{Key: r.key}
		case err != nil:
			return err
		default:
			return seen.refusal(r.key)
		}
	}
}

// see looks at a key's row without touching it.
func (c *Coordinator) see(ctx context.Context, key string) (*sight, error) {
	seen := &sight{}
	_, err := c.run.QueryRow(ctx, sightSQL, []any{key}, seen.dest()...)
	return seen, err
}
