package conformance

import (
	"time"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// busyServer does nothing by itself that changes tables or uses up transaction ids.
var busyServer = map[string]string{"autovacuum": "off", "fsync": "off"}

// busyChecks prove S14 of keys that are held: a try never waits and is no error.
var busyChecks = []check{
	{clause: "S14", name: "busy_tries_write_nothing", when: leases, run: busyTriesWriteNothing, server: busyServer},
	{clause: "S14", name: "no_error_in_the_log", when: excludes, run: noErrorInTheLog, own: true},
	{clause: "S14", name: "try_never_waits", run: tryNeverWaits},
}

// busyTriesWriteNothing compares the server before and after many busy tries.
func busyTriesWriteNothing(w *world) { // 57
	const tries = 1000
	key, a, b := w.key("k"), w.node(setup{ttl: time.Hour}), w.node(setup{ttl: time.Hour})
	claim := a.try(key)
	b.held(key)
	before := w.written()
	for range tries {
		b.held(key)
	}
	same(w, w.written(), before, "rows written and transaction ids used by busy tries")
	w.release(claim)
}

// traffic is what a server has written so far.
type traffic struct {
	rows int64
	xids string
}

func (w *world) written() traffic {
	w.Helper()
	var t traffic
	// The numbers of a session arrive within a second; those of one that waits
	// for its client arrive at the latest with its next statement. To be sure,
	// the sum must stay the same for longer than that.
	for since, last := time.Now(), int64(-1); time.Since(since) < 1200*time.Millisecond; {
		w.must(w.admin.QueryRow(w.ctx, `
			SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0), pg_snapshot_xmax(pg_current_snapshot())::text
			  FROM pg_stat_user_tables WHERE schemaname <> 'ledger'`).Scan(&t.rows, &t.xids), "read statistics")
		if t.rows != last {
			since, last = time.Now(), t.rows
		}
		<-time.After(50 * time.Millisecond)
	}
	return t
}

// noErrorInTheLog does what is ordinary among claims: the server has nothing to
// complain about.
func noErrorInTheLog(w *world) { // R7
	a, b := w.node(setup{}), w.node(setup{})
	key := w.key("k")
	for range 5 {
		claim := a.acquire(key)
		b.held(key)
		_, err := b.Acquire(w.within(30*time.Millisecond), key)
		w.refused(err, "Acquire of a held key")
		w.add(claim)
		w.release(claim)
	}
	w.race([]*node{a, b}, w.key("raced"))
	w.countTogether([]*node{a, b}, w.key("counted"), 3, 5)
	w.must(a.Close(w.ctx), "Close")
	w.must(b.Close(w.ctx), "Close")
	for _, line := range pgtest.LogErrors(w, w.dsn) {
		w.Errorf("the server logged: %s", line)
	}
}

// tryNeverWaits tries a key in each state in which its row is locked by somebody.
func tryNeverWaits(w *world) {
	const soonEnough = time.Second
	key, a, b := w.key("k"), w.node(setup{}), w.node(setup{})
	claim := a.try(key)
	end := w.begin(w.ctx, claim, counting(w.ctx, claim))
	for range 20 {
		start := time.Now()
		b.held(key)
		if took := time.Since(start); took > soonEnough {
			w.Fatalf("TryAcquire under an open guarded transaction took %v", took)
		}
	}
	w.must(end(nil), "end of the guarded transaction")
	w.release(claim)
}
