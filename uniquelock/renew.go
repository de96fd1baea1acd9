package uniquelock

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
// background anyway; a long step that must not be interrupted may want it.
//
// It fails with pgcoord.ErrLost when the claim is not current, and with
// pgcoord.ErrConflict when a stranger has its row locked for 5 s; the lease is as
// before then. It never makes a claim current again, but one whose lease ran out
// while nobody took the key lives on.
func (l *Lease) Renew(ctx context.Context) error {
	if err := l.gate.Ended(); err != nil {
		return describe("renew", l.key, err)
	}
	var pause pace.Backoff
	limit := time.Now().Add(guard.LockedLimit)
	for {
		sent := time.Now()
		var ord int64
		var renewed, mine bool
		_, err := l.c.run.QueryRow(ctx, renewSQL, renewArgs([]*Lease{l}), &ord, &renewed, &mine)
		switch {
		case err != nil:
			return describe("renew", l.key, err)
		case renewed:
			l.gate.Renewed(sent)
			return nil
		case !mine && l.gate.Ending():
			return describe("renew", l.key, fmt.Errorf("%w: the claim is being completed or released", pgcoord.ErrConflict))
		case !mine:
			return describe("renew", l.key, l.gate.Refuse(l.c.why(ctx, l)))
		case time.Now().After(limit):
			return describe("renew", l.key, guard.ErrLocked)
		}
		if err := statement.Sleep(ctx, pause.Next()); err != nil {
			return describe("renew", l.key, err)
		}
	}
}

// Ensure makes sure that the lease lasts at least d from now, and renews it if it
// does not. It fails as Renew does, when d is more than the lease's TTL, and with
// pgcoord.ErrLost when less than d is left because the renewal was slow.
func (l *Lease) Ensure(ctx context.Context, d time.Duration) error {
	if d > l.terms.ttl {
		return describe("ensure", l.key, fmt.Errorf("%v is more than the lease's TTL of %v", d, l.terms.ttl))
	}
	if l.Remaining() >= d {
		return nil
	}
	if err := l.Renew(ctx); err != nil {
		return err
	}
	if left := l.Remaining(); left < d {
		return describe("ensure", l.key, fmt.Errorf("%w: only %v are left after a slow renewal", pgcoord.ErrLost, left))
	}
	return nil
}

// renewAll renews leases in one statement on the keeper's connection.
func (c *Coordinator) renewAll(ctx context.Context, conn *pgx.Conn, leases []*Lease) error {
	sent := time.Now()
	plain, err := statement.ReadCommitted(ctx, conn)
	if err != nil {
		return err
	}
	lost, err := sendRenewals(ctx, conn, plain, sent, leases)
	if err != nil {
		return err
	}
	for _, l := range lost {
		if l.gate.Ending() { // its own end looks the same until that has its answer
			l.gate.Skipped(time.Now())
			continue
		}
		_ = l.gate.Refuse(c.why(ctx, l)) // told by Lost
	}
	return nil
}

// sendRenewals returns the leases whose claims are not current.
func sendRenewals(ctx context.Context, conn *pgx.Conn, plain bool, sent time.Time, leases []*Lease) (lost []*Lease, err error) {
	batch := &pgx.Batch{}
	if !plain {
		batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	}
	var answers []answer
	batch.Queue(renewSQL, renewArgs(leases)...).Query(func(rows pgx.Rows) (err error) {
		answers, err = pgx.CollectRows(rows, pgx.RowToStructByPos[answer])
		return err
	})
	if !plain {
		batch.Queue("commit")
	}
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	for _, a := range answers {
		switch l := leases[a.Ord-1]; {
		case a.Renewed:
			l.gate.Renewed(sent)
		case a.Mine:
			l.gate.Skipped(time.Now())
		default:
			lost = append(lost, l)
		}
	}
	if len(answers) != len(leases) {
		return lost, errors.New("a renewal was not answered")
	}
	return lost, nil
}

// answer is the answer to one renewal of a batch.
type answer struct {
	Ord           int64
	Renewed, Mine bool
}

func renewArgs(leases []*Lease) []any {
	keys := make([]string, len(leases))
	tokens := make([]int64, len(leases))
	ids := make([]string, len(leases))
	ttls := make([]int64, len(leases))
	for i, l := range leases {
		keys[i], tokens[i], ids[i], ttls[i] = l.key, l.token, l.claimID, l.terms.ttl.Microseconds()
	}
	return []any{keys, tokens, ids, ttls}
}
