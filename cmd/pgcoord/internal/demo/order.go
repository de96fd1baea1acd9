package demo

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// price is what each order costs, in cents.
const price = 4990

// order is one order of the shop. It must be charged once.
type order int

// key is the name under which strategies exclude workers from each other.
func (o order) key() string { return fmt.Sprintf("pgcoord-demo/order/%d", int(o)) }

type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// create stores the order, unpaid.
func (o order) create(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `INSERT INTO pgcoord_demo.orders (id) VALUES ($1)`, int(o))
	return o.wrap("create", err)
}

// paid tells whether anything was charged for the order.
func (o order) paid(ctx context.Context, db queryer) (bool, error) {
	var paid bool
	err := db.QueryRow(ctx, `SELECT charged_cents > 0 FROM pgcoord_demo.orders WHERE id = $1`, int(o)).Scan(&paid)
	return paid, o.wrap("read", err)
}

// charge takes the money, in tx: one row of effects, and the sum on the order.
func (o order) charge(ctx context.Context, tx pgx.Tx, worker string, token int64) error {
	_, err := tx.Exec(ctx,
		`INSERT INTO pgcoord_demo.effects (order_id, worker, token, cents) VALUES ($1, $2, $3, $4)`,
		int(o), worker, token, price)
	if err != nil {
		return o.wrap("charge", err)
	}
	_, err = tx.Exec(ctx,
		`UPDATE pgcoord_demo.orders SET charged_cents = charged_cents + $2 WHERE id = $1`, int(o), price)
	return o.wrap("charge", err)
}

// chargeNow charges in a transaction of its own.
func (o order) chargeNow(ctx context.Context, pool *pgxpool.Pool, worker string, token int64) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return o.charge(ctx, tx, worker, token) })
}

// count returns how often the order was charged, and how much in all.
func (o order) count(ctx context.Context, pool *pgxpool.Pool) (effects, cents int, err error) {
	err = pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM pgcoord_demo.effects WHERE order_id = $1), charged_cents
		  FROM pgcoord_demo.orders WHERE id = $1`, int(o)).Scan(&effects, &cents)
	return effects, cents, o.wrap("count the effects of", err)
}

func (o order) wrap(verb string, err error) error {
	if err != nil {
		return fmt.Errorf("%s order %d: %w", verb, int(o), err)
	}
	return nil
}
