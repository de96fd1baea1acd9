package statemachine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
	"github.com/pgcoord/pgcoord/internal/guard"
	"github.com/pgcoord/pgcoord/internal/pace"
	"github.com/pgcoord/pgcoord/internal/statement"
)

// Renew renews the lease now and gives it its full TTL. It is done in the
// background anyway. It touches pgcoord.attempts alone, not the row.
//
// It fails with pgcoord.ErrLost when the attempt is not under way any more.
func (a *Attempt) Renew(ctx context.Context) error {
	if err := a.gate.Ended(); err != nil {
		return describe("renew", a.key, err)
	}
	var pause pace.Backoff
	limit := time.Now().Add(guard.LockedLimit)
	for {
		sent := time.Now()
		var ord int64
		var renewed bool
		var outcome string
		_, err := a.c.run.QueryRow(ctx, renewSQL, a.c.renewArgs([]*Attempt{a}), &ord, &renewed, &outcome)
		switch {
		case err != nil:
			return describe("renew", a.key, err)
		case renewed:
			a.gate.Renewed(sent)
			return nil
		case outcome != "open" && a.gate.Ending():
			return describe("renew", a.key, fmt.Errorf("%w: the claim is being ended", pgcoord.ErrConflict))
		case outcome != "open":
			lost, err := a.look(ctx)
			if err == nil && lost != nil {
				err = a.gate.Refuse(lost)
			}
			return describe("renew", a.key, err)
		case time.Now().After(limit):
			return describe("renew", a.key, guard.ErrLocked)
		}
		if err := statement.Sleep(ctx, pause.Next()); err != nil {
			return describe("renew", a.key, err)
		}
	}
}

// renewAll renews attempts in one statement on the keeper's connection.
func (c *Coordinator) renewAll(ctx context.Context, conn *pgx.Conn, attempts []*Attempt) error {
	sent := time.Now()
	plain, err := statement.ReadCommitted(ctx, conn)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	if !plain {
		batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	}
	var answers []renewed
	batch.Queue(renewSQL, c.renewArgs(attempts)...).Query(func(rows pgx.Rows) (err error) {
		answers, err = pgx.CollectRows(rows, pgx.RowToStructByPos[renewed])
		return err
	})
	if !plain {
		batch.Queue("commit")
	}
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	if len(answers) != len(attempts) {
		return errors.New("a renewal was not answered")
	}
	for _, got := range answers {
		c.renewed(ctx, attempts[got.Ord-1], got, sent)
	}
	return nil
}

// renewed takes the answer to the renewal of a.
func (c *Coordinator) renewed(ctx context.Context, a *Attempt, got renewed, sent time.Time) {
	switch {
	case got.Renewed:
		a.gate.Renewed(sent)
	case got.Outcome == "open", a.gate.Ending(): // locked, or its own end looks the same
		a.gate.Skipped(time.Now())
	case got.Outcome == "lease expired" && !c.step.NoAdoption:
		a.gate.Tell() // it may still be adopted, if it comes back before the next claim
		c.forget(a)
	default:
		if lost, err := a.look(ctx); err == nil && lost != nil {
			_ = a.gate.Refuse(lost) // told by Lost
		} else {
			a.gate.Skipped(time.Now())
		}
	}
}

// renewed is the answer to one renewal of a batch.
type renewed struct {
	Ord     int64
	Renewed bool
	Outcome string
}

func (c *Coordinator) renewArgs(attempts []*Attempt) []any {
	keys := make([]string, len(attempts))
	tokens := make([]int64, len(attempts))
	ids := make([]string, len(attempts))
	for i, a := range attempts {
		keys[i], tokens[i], ids[i] = a.key, a.token, a.claimID
	}
	return []any{c.m.name, keys, tokens, ids, c.step.TTL.Microseconds()}
}
