package statement

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Within sends sql once on conn, in a READ COMMITTED transaction of its own, and
// hands its rows to collect. Plain is what Do told of conn.
func Within(ctx context.Context, conn *pgx.Conn, plain bool, sql string, args []any, collect func(pgx.Rows) error) error {
	if !plain {
		return wrapped(ctx, conn, func(batch *pgx.Batch) { batch.Queue(sql, args...).Query(collect) })
	}
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return collect(rows)
}
