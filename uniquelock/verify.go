package uniquelock

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/schema"
)

// lockTable is what the coordinator relies on.
var lockTable = schema.Table{
	Name: "task_locks", Keys: []string{"task_name"}, Tokens: "token",
	Times: []string{"locked_at", "expires_at", "hold_until"},
}

// ground remembers that the schema was found sound, so that it is looked at once.
type ground struct{ sound atomic.Bool }

// check fails where claims would not be safe; nothing is granted then.
func (g *ground) check(ctx context.Context, c *Coordinator) error {
	if g.sound.Load() {
		return nil
	}
	err := c.run.Do(ctx, func(ctx context.Context, conn *pgx.Conn, _ bool) error {
		return schema.Check(ctx, conn, lockTable)
	})
	if err == nil {
		g.sound.Store(true)
	}
	return err
}

// Verify looks at whether the database is what claims rest on: the schema, its
// sequence and its lock table, a session that may write, and a next token that
// exceeds all earlier ones. It reads the whole lock table. The cheap part of this
// is done before the first grant anyway.
//
// Its error tells each fault with its cure. It changes nothing.
func (c *Coordinator) Verify(ctx context.Context) error {
	return describe("verify", "", c.onConn(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := schema.Check(ctx, conn, lockTable); err != nil {
			return err
		}
		return schema.CheckFloor(ctx, conn, lockTable)
	}))
}

// Repair makes the next token exceed all in the lock table, as is needed after a
// restore from a dump. It locks the table for a moment, and needs a role that may
// update the sequence and pgcoord.cluster.
//
// After an error nothing is changed.
func (c *Coordinator) Repair(ctx context.Context) error {
	return describe("repair", "", c.onConn(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return schema.RaiseFloor(ctx, conn, lockTable)
	}))
}

func (c *Coordinator) onConn(ctx context.Context, fn func(context.Context, *pgx.Conn) error) error {
	if err := c.calls.Enter(); err != nil {
		return err
	}
	defer c.calls.Leave()
	return c.run.Do(ctx, func(ctx context.Context, conn *pgx.Conn, _ bool) error { return fn(ctx, conn) })
}
