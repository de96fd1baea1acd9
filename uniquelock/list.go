package uniquelock

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Holding is what List tells of a current claim.
type Holding struct {
	Key      string
	Token    int64
	Holder   string
	Since    time.Time     // of the grant, by the database's clock
	Until    time.Time     // end of the lease or of the minimum hold, by the database's clock
	Age      time.Duration // since the grant
	Metadata map[string]string
	Waiters  int // processes that wait for the key, this one included; behind a pooler they are not seen
}

// List returns the current claims of all processes whose lease has not ended,
// oldest first. The view pgcoord.held shows the same to plain SQL.
func (c *Coordinator) List(ctx context.Context) (all []Holding, err error) {
	if err := c.calls.Enter(); err != nil {
		return nil, describe("list", "", err)
	}
	defer c.calls.Leave()
	err = c.run.Do(ctx, func(ctx context.Context, conn *pgx.Conn, _ bool) error {
		rows, err := conn.Query(ctx, listSQL)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h Holding, err error) {
			var age int64
			err = row.Scan(&h.Key, &h.Token, &h.Holder, &h.Since, &h.Until, &age, &h.Metadata, &h.Waiters)
			h.Age = time.Duration(age) * time.Microsecond
			return h, err
		})
		return err
	})
	return all, describe("list", "", err)
}
