package conformance

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// settingChecks prove that connections go back to the pool as they came (S12, S13).
var settingChecks = []check{
	{clause: "S12", name: "nothing_leaks_to_the_pool", run: nothingLeaks},
}

// nothingLeaks uses every verb, well and badly, and then compares the pool's
// connections with a fresh one.
func nothingLeaks(w *world) {
	const conns = 3
	a, b := w.node(setup{conns: conns, ttl: renewed, idle: 5 * time.Second}), w.node(setup{})
	for range 2 * conns { // so that every connection gets its share
		w.useEveryVerb(a, b)
	}
	fresh, err := pgx.ConnectConfig(w.ctx, a.pool.Config().ConnConfig)
	w.must(err, "connect")
	defer fresh.Close(context.WithoutCancel(w.ctx))
	want := w.sessionState(fresh)
	var taken []*pgxpool.Conn
	for range conns {
		conn, err := a.pool.Acquire(w.ctx)
		w.must(err, "take a connection of the pool")
		defer conn.Release()
		taken = append(taken, conn)
	}
	for _, conn := range taken {
		got := w.sessionState(conn.Conn())
		for name, value := range want {
			same(w, got[name], value, name+" of a connection in the pool")
		}
	}
}

func (w *world) useEveryVerb(a, b *node) {
	key := w.key("used " + time.Now().String())
	first := a.try(key)
	w.must(first.BeginFunc(operation(w, "op"), counting(w.ctx, first)), "BeginFunc")
	w.wants(first.BeginFunc(w.ctx, func(pgx.Tx) error { return errWork }), errWork, "BeginFunc")
	w.refused(first.BeginFunc(w.ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(w.ctx, "SELECT 1/0")
		return err
	}), "BeginFunc")
	func() {
		defer func() { _ = recover() }()
		_ = first.BeginFunc(w.ctx, func(pgx.Tx) error { panic("work") })
	}()
	_, err := a.Resolve(w.ctx, key, "never applied")
	w.must(err, "Resolve")
	if !w.strategy.Supersedes {
		b.held(key)
		_, err = a.TryAcquire(w.ctx, key)
		w.refused(err, "TryAcquire of a key held here")
	}
	w.release(first)
	_, free := w.occupy(b, key)
	_, err = a.Acquire(w.within(20*time.Millisecond), key)
	w.wants(err, context.DeadlineExceeded, "Acquire of a held key")
	free()
	second := a.acquire(key)
	w.must(second.Complete(w.ctx, counting(w.ctx, second)), "Complete")
}

// sessionState returns all settings of a connection, and what else a session can
// be left with.
func (w *world) sessionState(conn *pgx.Conn) map[string]string {
	w.Helper()
	rows, err := conn.Query(w.ctx, `
		SELECT name, setting FROM pg_settings
		UNION ALL SELECT 'advisory locks', count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
		UNION ALL SELECT 'channels', count(*)::text FROM pg_listening_channels()
		UNION ALL SELECT 'temporary tables', count(*)::text FROM pg_class WHERE relnamespace = pg_my_temp_schema()
		UNION ALL SELECT 'cursors', (count(*) FILTER (WHERE is_holdable))::text FROM pg_cursors`)
	w.must(err, "read the state of a session")
	state := map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		state[name] = value
		return nil
	})
	w.must(err, "read the state of a session")
	return state
}
