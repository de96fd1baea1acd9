package uniquelock

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// current is what stands in a key's row.
type current struct {
	token     int64
	claimID   string
	held      bool
	doneToken int64
	holder    string
	note      string
}

// current reads a key's row. A key without one reads as never claimed.
func (c *Coordinator) current(ctx context.Context, key string) (current, error) {
	var now current
	_, err := c.run.QueryRow(ctx, currentSQL, []any{key}, now.dest()...)
	if errors.Is(err, pgx.ErrNoRows) {
		return current{}, nil
	}
	return now, err
}

func (now *current) dest() []any {
	return []any{&now.token, &now.claimID, &now.held, &now.doneToken, &now.holder, &now.note}
}

// is reports whether l is the current claim.
func (now *current) is(l *Lease) bool {
	return now.held && now.token == l.token && now.claimID == l.claimID
}

// lossOf tells in words what became of l.
func (now *current) lossOf(l *Lease) error {
	if reason := l.broken.Load(); reason != nil {
		return fmt.Errorf("it was broken: %s", *reason)
	}
	switch {
	case now.token == 0:
		return errors.New("its row is gone")
	case now.token == l.token && now.note != "":
		return fmt.Errorf("it was broken: %s", now.note)
	case now.token == l.token && !now.held:
		return errors.New("it has ended")
	}
	return fmt.Errorf("token %d of %q came after token %d", now.token, now.holder, l.token)
}

// why tells in words what became of l, as far as the database can be asked.
func (c *Coordinator) why(ctx context.Context, l *Lease) error {
	now, err := c.current(ctx, l.key)
	if err != nil {
		return errGone
	}
	return now.lossOf(l)
}

// look tells what became of l: nil while it is current.
func (l *Lease) look(ctx context.Context) (lost, err error) {
	now, err := l.c.current(ctx, l.key)
	if err != nil || now.is(l) {
		return nil, err
	}
	return now.lossOf(l), nil
}
