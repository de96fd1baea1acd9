package statement

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// isolationKey is where a connection keeps what ReadCommitted found out.
const isolationKey = "pgcoord.read_committed"

// ReadCommitted reports whether conn's transactions are READ COMMITTED by
// default. It asks the server once per connection.
func ReadCommitted(ctx context.Context, conn *pgx.Conn) (bool, error) {
	data := conn.PgConn().CustomData()
	if known, ok := data[isolationKey].(bool); ok {
		return known, nil
	}
	var level string
	err := conn.QueryRow(ctx, "SELECT pg_catalog.current_setting('transaction_isolation')").Scan(&level)
	if err != nil {
		return false, err
	}
	data[isolationKey] = level == "read committed"
	return level == "read committed", nil
}
