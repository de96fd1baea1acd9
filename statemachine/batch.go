package statemachine

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/pace"
	"github.com/pgcoord/pgcoord/internal/pgerr"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// maxBatch is how many rows one ClaimBatch claims at most.
const maxBatch = 1000

// Order is a column that rows are claimed in the order of.
type Order struct {
	Column     string
	Descending bool
}

// ClaimBatch claims up to n Ready rows at once, in the order of the columns, or of
// the key where none is named. Rows that somebody has locked are left out, and it
// never waits. Rows that rest after a failure are left out too.
//
// It returns no error and no attempt when there is nothing to claim. It takes no
// row back: that is for Reap.
//
// A failed call leaves no row claimed; one that was cut off on its way frees what
// it may have claimed, within the TTL at the latest.
func (c *Coordinator) ClaimBatch(ctx context.Context, n int, order ...Order) ([]*Attempt, error) {
	attempts, err := c.claimBatch(ctx, n, order)
	return attempts, describe("claim a batch", "", err)
}

func (c *Coordinator) claimBatch(ctx context.Context, n int, order []Order) ([]*Attempt, error) {
	if n < 1 || n > maxBatch {
		return nil, fmt.Errorf("the size of the batch is %d, it must be from 1 to %d", n, maxBatch)
	}
	if err := c.calls.Enter(); err != nil {
		return nil, err
	}
	defer c.calls.Leave()
	q, shape, err := c.prepared(ctx)
	if err != nil {
		return nil, err
	}
	sql, err := c.m.ordered(q.batch, order)
	if err != nil {
		return nil, err
	}
	return c.sendBatch(ctx, sql, shape, n)
}

// ordered fills in the order; a column is checked when the server sees it.
func (m *Machine) ordered(sql string, order []Order) (string, error) {
	by := m.keyColumns("o")
	if len(order) > 0 {
		columns := make([]string, len(order))
		for i, o := range order {
			if err := checkText(o.Column, maxName); err != nil {
				return "", fmt.Errorf("Order.Column: %w", err)
			}
			columns[i] = "o." + quoted(o.Column)
			if o.Descending {
				columns[i] += " DESC"
			}
		}
		by = strings.Join(columns, ", ")
	}
	return strings.ReplaceAll(sql, "{order}", by), nil
}

func (c *Coordinator) sendBatch(ctx context.Context, sql string, shape *shape, n int) ([]*Attempt, error) {
	base := rand.Text()
	sent := time.Now()
	var granted []grant
	called := false
	// Sent once: a second send would claim other rows.
	err := c.run.Do(ctx, func(ctx context.Context, conn *pgx.Conn, plain bool) error {
		called = true
		return statement.Within(ctx, conn, plain, sql, []any{
			c.m.name, base, string(c.step.Ready), string(c.step.Working), c.opts.Holder, c.hub.Channel(),
			n, c.step.TTL.Microseconds(),
		}, func(rows pgx.Rows) (err error) {
			granted, err = pgx.CollectRows(rows, pgx.RowToStructByPos[grant])
			return err
		})
	})
	if err != nil {
		if called && !pgerr.Certain(err) {
			c.giveBackAll(base)
			err = unknownIf(err)
		}
		return nil, err
	}
	attempts := make([]*Attempt, len(granted))
	for i, g := range granted {
		parts, err := shape.splitKey(g.Key)
		if err != nil { // a value that no caller could name
			c.giveBackAll(base)
			return nil, err
		}
		args := make([]any, len(parts))
		for j, part := range parts {
			args[j] = part
		}
		attempts[i] = c.newAttempt(g.Key, args, g.ClaimID, g.Token, g.Attempt, sent)
	}
	return attempts, nil
}

// grant is a row of a batch.
type grant struct {
	Key     string
	Token   int64
	Attempt int
	ClaimID string
}

// giveBackAll releases in the background what a batch was granted.
func (c *Coordinator) giveBackAll(base string) {
	c.calls.Background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackLimit)
		defer cancel()
		// Their leases end at once; the reaper, or the next claim of a key, does the rest.
		_, _, err := c.run.Exec(ctx, forsakeSQL, c.m.name, base+"/")
		if err != nil {
			c.opts.Logger.Debug("statemachine: a batch was not given back and ends with its leases", "error", err)
		}
	})
}

// Next waits until there is a row to claim and claims it, in the order of the
// columns. It takes rows back whose leases are over. It fails with the error of ctx.
//
// It is woken by rows that come back to Ready through this package, by the trigger
// that DDL offers, and looks by itself every second.
func (c *Coordinator) Next(ctx context.Context, order ...Order) (*Attempt, error) {
	a, err := c.next(ctx, order)
	if err != nil {
		return nil, describe("wait for work", "", err)
	}
	return a, nil
}

func (c *Coordinator) next(ctx context.Context, order []Order) (*Attempt, error) {
	if err := c.calls.Enter(); err != nil {
		return nil, err
	}
	defer c.calls.Leave()
	c.hub.Start()
	place := c.lines.Join("", &request{})
	asked := false
	defer func() {
		if _, _, last := place.Leave(); last && asked {
			c.leave("")
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.calls.Closing():
			return nil, pgcoord.ErrClosed
		case <-place.Wake():
		case <-timer.C:
		}
		if !place.StartLook() {
			continue
		}
		a, err := c.nextOnce(ctx, order, &asked)
		place.EndLook()
		if a != nil || err != nil && (ctx.Err() != nil || !asked || !pgerr.Transient(err)) {
			return a, err
		}
		timer.Reset(pace.Jitter(pace.Fallback))
	}
}

// nextOnce asks to be told, and then looks: what comes after the look is told.
func (c *Coordinator) nextOnce(ctx context.Context, order []Order, asked *bool) (*Attempt, error) {
	if c.hub.Works() {
		if _, _, err := c.run.Exec(ctx, awaitWorkSQL, c.m.name, c.hub.Channel(), waiterLife.Microseconds()); err != nil {
			return nil, err
		}
		*asked = true
	}
	for reaped := false; ; reaped = true {
		attempts, err := c.claimBatch(ctx, 1, order)
		if err != nil || len(attempts) > 0 {
			return slices.Concat(attempts, []*Attempt{nil})[0], err
		}
		if reaped {
			return nil, nil
		}
		if _, err := c.Reap(ctx); err != nil {
			return nil, err
		}
	}
}
