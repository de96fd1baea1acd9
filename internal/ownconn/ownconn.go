// Package ownconn opens connections beside a pool: for work that a busy pool must
// not starve, such as renewals, or that keeps a connection, such as listening.
package ownconn

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dialLimit bounds one attempt to connect.
const dialLimit = 10 * time.Second

// Connect opens a connection as pool would, with the hooks that prepare one, but
// outside of its limit. Changes are made to the configuration before.
func Connect(ctx context.Context, pool *pgxpool.Pool, change func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	config := pool.Config()
	connConfig := config.ConnConfig
	if config.BeforeConnect != nil {
		if err := config.BeforeConnect(ctx, connConfig); err != nil {
			return nil, err
		}
	}
	if change != nil {
		change(connConfig)
	}
	conn, err := pgx.ConnectConfig(ctx, connConfig)
	if err != nil {
		return nil, err
	}
	if config.AfterConnect != nil {
		if err := config.AfterConnect(ctx, conn); err != nil {
			_ = conn.Close(ctx) // the error of the hook is the one that matters
			return nil, err
		}
	}
	return conn, nil
}
