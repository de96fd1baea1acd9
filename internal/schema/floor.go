package schema

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// What the next token is computed from, and the largest one given. A sequence
// that was never drawn from stands below its first number.
const floorSQL = `
SELECT coalesce((SELECT max(t.%s) FROM pgcoord.%s t), 0),
       (SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM pgcoord.fencing_token_seq s),
       (SELECT c.epoch FROM pgcoord.cluster c) + ('x' || pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::bit(32)::bigint`

const low = 1 << 40 // numbers of the sequence lie below

func floorOf(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, table Table,
) (largest, last, high int64, err error) {
	sql := fmt.Sprintf(floorSQL, pgx.Identifier{table.Tokens}.Sanitize(), pgx.Identifier{table.Name}.Sanitize())
	err = db.QueryRow(ctx, sql).Scan(&largest, &last, &high)
	return largest, last, high, err
}

// CheckFloor looks at all tokens of table: the next one must exceed them. It reads
// the whole table.
func CheckFloor(ctx context.Context, conn *pgx.Conn, table Table) error {
	largest, last, high, err := floorOf(ctx, conn, table)
	if err != nil {
		return err
	}
	if largest%low > last || largest/low > high {
		return fmt.Errorf(
			"the next token would not exceed %d, the largest in pgcoord.%s, as after a restore; mend it: Repair", largest, table.Name)
	}
	return nil
}

// RaiseFloor makes the next token exceed all of table. It locks the table, so
// that nothing is granted meanwhile; the role must own the sequence or may update
// it.
func RaiseFloor(ctx context.Context, conn *pgx.Conn, table Table) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		lock := "LOCK TABLE pgcoord." + pgx.Identifier{table.Name}.Sanitize() + " IN SHARE ROW EXCLUSIVE MODE"
		if _, err := tx.Exec(ctx, lock); err != nil {
			return err
		}
		largest, last, high, err := floorOf(ctx, tx, table)
		if err != nil {
			return err
		}
		if largest%low > last {
			if _, err := tx.Exec(ctx, "SELECT pg_catalog.setval('pgcoord.fencing_token_seq', $1::bigint)", largest%low); err != nil {
				return err
			}
		}
		if largest/low > high {
			_, err = tx.Exec(ctx, "UPDATE pgcoord.cluster SET epoch = epoch + $1::bigint", largest/low-high)
		}
		return err
	})
}
