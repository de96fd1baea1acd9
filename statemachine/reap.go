package statemachine

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/pgerr"
)

// reapBatch is how many rows one statement takes back.
const reapBatch = 100

// Reaped is a row that Reap has taken back from an attempt whose lease was over.
type Reaped struct {
	Key     string
	Token   int64 // of the attempt that ended
	Attempt int   // its number
	State   State // where the row is now: Ready or Failed
}

// Reaping is what Reap did.
type Reaping struct {
	Moved []Reaped
	// Stuck are rows that could not be moved, for instance because that would break
	// a unique index of the application, by key with the error. They stay Working.
	Stuck map[string]error
}

// Reap takes rows back whose attempts have outlived their leases: to Ready, or to
// Failed where the attempts are used up. Any number of processes may call it at
// once; nobody leads. A claim of a single key does the same for its row.
//
// It fails when the database cannot be asked; what was moved before stays moved.
// Rows that cannot be moved are reported and stop no other.
func (c *Coordinator) Reap(ctx context.Context) (Reaping, error) {
	done := Reaping{Stuck: map[string]error{}}
	if err := c.calls.Enter(); err != nil {
		return done, describe("reap", "", err)
	}
	defer c.calls.Leave()
	q, _, err := c.prepared(ctx)
	if err != nil {
		return done, describe("reap", "", err)
	}
	stuck := []string{}
	for {
		moved, err := c.reap(ctx, q, reapBatch, nil, stuck)
		if refusedByServer(err) {
			moved, err = c.reapEach(ctx, q, &done, &stuck)
		}
		done.Moved = append(done.Moved, moved...)
		if err != nil {
			return done, describe("reap", "", err)
		}
		if len(moved) == 0 {
			break
		}
	}
	_, _, err = c.run.Exec(ctx, q.supersede, c.m.name, string(c.step.Working))
	return done, describe("reap", "", err)
}

// reapEach takes rows back one by one, after one of them has made a batch fail.
func (c *Coordinator) reapEach(ctx context.Context, q *queries, done *Reaping, stuck *[]string) ([]Reaped, error) {
	var keys []string
	err := c.run.Do(ctx, func(ctx context.Context, conn *pgx.Conn, _ bool) error {
		rows, err := conn.Query(ctx, expiredSQL, c.m.name, *stuck, reapBatch)
		if err != nil {
			return err
		}
		keys, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []Reaped
	for _, key := range keys {
		moved, err := c.reap(ctx, q, 1, &key, nil)
		if refusedByServer(err) {
			done.Stuck[key] = describe("reap", key, err)
			*stuck = append(*stuck, key)
			continue
		}
		if err != nil {
			return all, err
		}
		all = append(all, moved...)
	}
	return all, nil
}

// refusedByServer reports whether the server answered that rows cannot be changed
// so: an integrity constraint, or a trigger of the application that raised.
func refusedByServer(err error) bool {
	code := pgerr.Code(err)
	return len(code) == 5 && (code[:2] == "23" || code[:2] == "P0" || code[:2] == "22" || code[:2] == "PG")
}

// reap takes back at most n rows, of key alone if that is set, and none of without.
func (c *Coordinator) reap(ctx context.Context, q *queries, n int, key *string, without []string) (moved []Reaped, err error) {
	s := c.step
	ready, limit := s.Ready, s.MaxAttempts
	if !c.m.Allows(s.Working, s.Ready) {
		ready = s.Failed // there is no way back
	}
	if without == nil {
		without = []string{}
	}
	args := []any{
		c.m.name, string(s.Working), string(ready), string(s.Failed), limit, s.Backoff.Microseconds(), n, key, without,
		s.MaxBackoff.Microseconds(),
	}
	_, err = c.run.Rows(ctx, q.reap, args, func(row pgx.CollectableRow) error {
		var r Reaped
		var woken int64
		err := row.Scan(&r.Key, &r.Token, &r.Attempt, (*string)(&r.State), &woken)
		moved = append(moved, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("take back: %w", err)
	}
	return moved, nil
}
