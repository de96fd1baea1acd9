package uniquelock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/guard"
	"github.com/pgcoord/pgcoord/internal/keys"
	"github.com/pgcoord/pgcoord/internal/pace"
	"github.com/pgcoord/pgcoord/internal/statement"
)

const maxReason = 512 // bytes

// Break ends the current claim on key for its holder: an operator's means
// against one that lives but does not work. From its return on, nothing of that
// claim commits; the holder is told by Lost, and reason, of at most 512 bytes, is
// in its errors. Minimum hold ends too.
//
// It fails with pgcoord.ErrNotFound when no claim is current, and with
// pgcoord.ErrHeld when a guarded transaction of the claim stays open for 5 s: that
// one ends with its function, or with the holder's idle limit. The claim stands
// then.
func (c *Coordinator) Break(ctx context.Context, key, reason string) error {
	if err := c.calls.Enter(); err != nil {
		return describe("break", key, err)
	}
	defer c.calls.Leave()
	err := keys.Check(key)
	if err == nil {
		err = keys.CheckText("reason", reason, maxReason)
	}
	if err == nil {
		err = c.breakClaim(ctx, key, reason)
	}
	return describe("break", key, err)
}

func (c *Coordinator) breakClaim(ctx context.Context, key, reason string) error {
	if reason == "" {
		reason = "no reason given"
	}
	var pause pace.Backoff
	limit := time.Now().Add(guard.LockedLimit)
	for {
		rows, result, err := c.run.Exec(ctx, breakSQL, key, reason)
		if err != nil {
			return unknownIf(result.Sent, err)
		}
		if rows > 0 {
			c.lines.WakeFirst(key)
			return nil
		}
		seen, err := c.see(ctx, key)
		switch {
		case errors.Is(err, pgx.ErrNoRows), err == nil && seen.state != "held" && seen.claimID == "":
			if result.Sent { // an earlier send has done it
				return nil
			}
			return pgcoord.ErrNotFound
		case err != nil:
			return err
		case time.Now().After(limit):
			return fmt.Errorf("a guarded transaction stays open: %w", seen.heldError(key))
		}
		if err := statement.Sleep(ctx, pause.Next()); err != nil {
			return err
		}
	}
}
