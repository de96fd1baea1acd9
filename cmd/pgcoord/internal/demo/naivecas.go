package demo

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// naiveCAS takes the order by its state alone: whoever moves the row from PENDING
// to PROCESSING has the work. A row that is PROCESSING for too long is reset.
type naiveCAS struct{}

func (naiveCAS) about() about {
	return about{
		name:     "naive-cas",
		strategy: "naive-cas",
		title:    "the row's state is the lock; a cron job resets what is stuck",
		pause:    "between claim and check",
		expired:  "1 s is over: the cron job resets the row to PENDING",
		moral:    "PROCESSING looked like A's own, and was B's or C's.",
	}
}

func (naiveCAS) referee(_ context.Context, db *database, o order) (referee, error) {
	return cronJob{db.pool, o}, nil
}

func (naiveCAS) tell(ctx context.Context, p *play, a, b, c *process) error {
	return p.overlap(ctx, a, b, c, kindCharged)
}

func (naiveCAS) work(ctx context.Context, w *worker) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	row := naiveRow{w.pool, w.order}
	mine, err := row.take(ctx, w)
	if err != nil || !mine {
		return err
	}
	if err := w.point(ctx, 0); err != nil {
		return err
	}
	state, err := row.state(ctx)
	if err != nil {
		return err
	}
	if state != "PROCESSING" {
		w.say(kindRefused, 0, "sees "+state+": stops")
		return nil
	}
	w.say(kindChecked, 0, "PROCESSING: still mine")
	if err := w.order.chargeNow(ctx, w.pool, w.Worker, 0); err != nil {
		return err
	}
	w.say(kindCharged, 0, "CHARGES")
	if !w.Pause { // still at work when the paused one goes on
		if err := w.await(ctx); err != nil {
			return err
		}
	}
	done, err := row.move(ctx, "PROCESSING", "PAID")
	if err != nil {
		return err
	}
	if done {
		w.say(kindEnded, 0, "sets it PAID: 1 row")
	} else {
		w.say(kindEnded, 0, "sets it PAID: 0 rows?")
	}
	return nil
}

// naiveRow is one worker's view of the order's row.
type naiveRow struct {
	pool  *pgxpool.Pool
	order order
}

// move is the compare-and-set: of all who try, one changes the row.
func (r naiveRow) move(ctx context.Context, from, to string) (moved bool, err error) {
	tag, err := r.pool.Exec(ctx, `
		UPDATE pgcoord_demo.orders SET status = $3, claimed_at = clock_timestamp()
		 WHERE id = $1 AND status = $2`, int(r.order), from, to)
	return tag.RowsAffected() == 1, r.order.wrap("move", err)
}

func (r naiveRow) state(ctx context.Context) (state string, err error) {
	err = r.pool.QueryRow(ctx, `SELECT status FROM pgcoord_demo.orders WHERE id = $1`, int(r.order)).Scan(&state)
	return state, r.order.wrap("read", err)
}

// take asks again and again until the row is the worker's, or its work is done.
func (r naiveRow) take(ctx context.Context, w *worker) (mine bool, err error) {
	for waiting := false; ; waiting = true {
		moved, err := r.move(ctx, "PENDING", "PROCESSING")
		if err != nil {
			return false, err
		}
		if moved {
			return true, w.took(ctx, 0, "claims it")
		}
		state, err := r.state(ctx)
		if err != nil {
			return false, err
		}
		if state == "PAID" {
			w.say(kindEnded, 0, "finds it PAID: skips")
			return false, nil
		}
		if !waiting {
			w.say(kindWaits, 0, "finds it "+state)
		}
		select {
		case <-time.After(naivePoll):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// cronJob resets a row that is PROCESSING for longer than a lock lasts.
type cronJob struct {
	pool  *pgxpool.Pool
	order order
}

func (cronJob) endpoint() string { return "" }

func (j cronJob) over(ctx context.Context, _ int64) (reset bool, err error) {
	tag, err := j.pool.Exec(ctx, `
		UPDATE pgcoord_demo.orders SET status = 'PENDING'
		 WHERE id = $1 AND status = 'PROCESSING' AND claimed_at < clock_timestamp() - $2::interval`, int(j.order), lockTTL)
	return tag.RowsAffected() == 1, j.order.wrap("reset", err)
}

func (cronJob) close() error { return nil }
