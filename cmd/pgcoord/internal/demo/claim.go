package demo

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgcoord/pgcoord"
)

// workByClaim is the work of a worker under any strategy of pgcoord. With
// inside, it is paused in the transaction that writes the charge, else before.
func workByClaim(ctx context.Context, w *worker, c pgcoord.Coordinator, inside bool) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	claim, err := takeClaim(ctx, w, c)
	if err != nil {
		return err
	}
	token := claim.Token()
	if err := w.took(ctx, token, "claims it"); err != nil {
		return err
	}
	var paid bool
	err = claim.BeginFunc(ctx, func(tx pgx.Tx) (err error) {
		paid, err = w.order.paid(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if paid {
		w.say(kindEnded, token, "finds it paid: skips")
		return claim.Release(ctx)
	}
	if !inside {
		w.say(kindChecked, token, "unpaid, claim is mine")
	}
	err = chargeByClaim(ctx, w, claim, inside)
	if errors.Is(err, pgcoord.ErrLost) || idledOut(err) {
		w.say(kindRefused, token, "REFUSED")
		return nil
	}
	if err != nil {
		return err
	}
	w.say(kindCharged, token, "CHARGES")
	return nil
}

// takeClaim claims the order, waiting for it if need be.
func takeClaim(ctx context.Context, w *worker, c pgcoord.Coordinator) (pgcoord.Claim, error) {
	claim, err := c.TryAcquire(ctx, w.order.key())
	var held *pgcoord.HeldError
	if !errors.As(err, &held) {
		return claim, err
	}
	w.say(kindWaits, 0, "waits for "+held.Holder)
	return c.Acquire(ctx, w.order.key())
}

func chargeByClaim(ctx context.Context, w *worker, claim pgcoord.Claim, inside bool) error {
	token := claim.Token()
	if !inside {
		if err := w.point(ctx, token); err != nil {
			return err
		}
	}
	return claim.Complete(ctx, func(tx pgx.Tx) error {
		if err := w.order.charge(ctx, tx, w.Worker, token); err != nil {
			return err
		}
		if inside {
			w.say(kindChecked, token, "writes, no commit yet")
			return w.point(ctx, token)
		}
		return nil
	})
}

// idleInTransaction is the SQLSTATE with which PostgreSQL ends a transaction
// that was silent for too long.
const idleInTransaction = "25P03"

// idledOut tells whether the transaction is gone because its limit for silence
// passed: nothing of it is stored.
func idledOut(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == idleInTransaction
}
