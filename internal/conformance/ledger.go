package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord"
)

// ledgerSchema holds the effects that claims have. A counter is read and written
// by plain statements, so that two guarded transactions that overlap lose a count.
const ledgerSchema = `
CREATE SCHEMA ledger;
CREATE TABLE ledger.counters (key text COLLATE "C" PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE ledger.effects (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	key     text        COLLATE "C" NOT NULL,
	token   bigint      NOT NULL,
	xid     text        NOT NULL DEFAULT pg_current_xact_id()::text,
	n       bigint      NOT NULL,
	started timestamptz NOT NULL,
	ended   timestamptz NOT NULL DEFAULT clock_timestamp()
);`

// count adds one to the counter of key inside a guarded transaction, and returns
// the value it found. Its first statement reads the counter (S4).
func count(ctx context.Context, tx pgx.Tx, key string, token int64) (int64, error) {
	var n int64
	var started time.Time
	err := tx.QueryRow(ctx, "SELECT n, clock_timestamp() FROM ledger.counters WHERE key = $1", key).Scan(&n, &started)
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, "UPDATE ledger.counters SET n = $2 WHERE key = $1", key, n+1); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, "INSERT INTO ledger.effects (key, token, n, started) VALUES ($1, $2, $3, $4)", key, token, n, started)
	return n, err
}

// counting returns the work that adds one to the counter of claim's key.
func counting(ctx context.Context, claim pgcoord.Claim) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := count(ctx, tx, claim.Key(), claim.Token())
		return err
	}
}

// add counts under claim, in a guarded transaction that must succeed.
func (w *world) add(claim pgcoord.Claim) {
	w.Helper()
	w.must(claim.BeginFunc(w.ctx, counting(w.ctx, claim)), "BeginFunc")
}

// usable proves that claim is current. It counts one.
func (w *world) usable(claim pgcoord.Claim) {
	w.Helper()
	if w.closed(claim.Lost()) {
		w.Fatal("Lost is closed while the claim is current")
	}
	w.add(claim)
}

// counted returns the counter of key.
func (w *world) counted(key string) int64 {
	w.Helper()
	var n int64
	w.must(w.admin.QueryRow(w.ctx, "SELECT n FROM ledger.counters WHERE key = $1", key).Scan(&n), "read the counter")
	return n
}

// effect is one row of the ledger.
type effect struct {
	Token          int64
	XID            string
	N              int64
	Started, Ended time.Time
}

// audit proves from the ledger that key was counted want times, and that the
// transactions of different claims came one after the other, in token order.
func (w *world) audit(key string, want int64) {
	w.Helper()
	same(w, w.counted(key), want, "counter of "+key)
	rows, err := w.admin.Query(w.ctx, "SELECT token, xid, n, started, ended FROM ledger.effects WHERE key = $1", key)
	w.must(err, "read the ledger")
	effects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[effect])
	w.must(err, "read the ledger")
	same(w, int64(len(effects)), want, "effects on "+key)
	if err := inOrder(effects); err != nil {
		w.Fatalf("effects on %s: %v", key, err)
	}
}

// inOrder reports the first pair of effects that breaks S3 or S4.
func inOrder(effects []effect) error {
	slices.SortFunc(effects, func(a, b effect) int { return a.Started.Compare(b.Started) })
	for i, e := range effects {
		switch {
		case e.N != int64(i):
			return errors.New("an effect did not see the one before it")
		case i == 0 || effects[i-1].Token == e.Token:
		case effects[i-1].Token > e.Token:
			return errors.New("an effect of an older token came after one of a newer")
		case e.Started.Before(effects[i-1].Ended):
			return errors.New("guarded transactions of two claims overlapped")
		}
	}
	return nil
}
