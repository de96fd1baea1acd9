package demo

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/uniquelock"
)

// leased is a claim of uniquelock: a lease with a fencing token.
type leased struct{ inside bool }

func (l leased) about() about {
	a := about{
		name:     "uniquelock",
		strategy: "uniquelock",
		title:    "each claim has a higher token, and the commit checks it",
		pause:    "between check and write",
		expired:  "1 s is over: A's lease has run out",
		moral:    "A was as wrong as before; PostgreSQL said no.",
		guarded:  true,
	}
	if l.inside {
		a.name = "uniquelock-in-transaction"
		a.title = "A is stopped later, inside its transaction"
		a.pause = "between write and commit"
		a.expired = "1 s is over: PostgreSQL has rolled A's silent transaction back"
		a.moral = "What A had written was gone before the next claim."
	}
	return a
}

func (l leased) referee(_ context.Context, db *database, o order) (referee, error) {
	return leaseReferee{db.pool, o.key()}, nil
}

func (l leased) work(ctx context.Context, w *worker) (err error) {
	c, err := uniquelock.New(w.pool, uniquelock.Options{TTL: lockTTL, Holder: w.Worker})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	return workByClaim(ctx, w, c, l.inside)
}

type leaseReferee struct {
	pool *pgxpool.Pool
	key  string
}

func (leaseReferee) endpoint() string { return "" }

// over tells whether the lease has ended and no transaction of the paused
// worker is open any more.
func (r leaseReferee) over(ctx context.Context, token int64) (over bool, err error) {
	err = r.pool.QueryRow(ctx, `
		SELECT NOT EXISTS (SELECT FROM pgcoord.held WHERE key = $1 AND token = $2)
		   AND NOT EXISTS (SELECT FROM pg_stat_activity
		                    WHERE datname = current_database() AND application_name = $3 AND state LIKE 'idle in transaction%')`,
		r.key, token, sessionName(pausedWorker)).Scan(&over)
	return over, err
}

func (leaseReferee) close() error { return nil }
