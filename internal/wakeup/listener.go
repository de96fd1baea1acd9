// Package wakeup listens for notifications on one connection of a process and
// passes them on. Nothing depends on one arriving: whoever waits also looks by
// itself from time to time. Behind a transaction pooler, where a notification
// would never arrive, the listener notices and says that it does not work.
package wakeup

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord/internal/ownconn"
	"github.com/pgcoord/pgcoord/internal/statement"
)

const (
	// checkEvery is how often a silent connection is asked whether it lives.
	checkEvery = 5 * time.Second
	checkLimit = 2 * time.Second
	// again is the pause before the connection is made anew; longWhile the one
	// where making it anew will not help soon.
	again     = 200 * time.Millisecond
	longWhile = 10 * time.Second
)

// errPooled reports that LISTEN would be accepted and never deliver.
var errPooled = errors.New("the connection goes through a transaction pooler, which delivers no notifications; polling instead")

// Listener receives the notifications of one process.
type Listener struct {
	pool    *pgxpool.Pool
	channel string
	on      func(payload string)
	ready   func()
	log     *slog.Logger

	start sync.Once
	works atomic.Bool
	stop  context.CancelFunc
	ctx   context.Context
	done  sync.WaitGroup
}

// New returns a Listener on a channel of its own. It calls on with each payload,
// and ready whenever notifications may have been missed; neither may block.
func New(pool *pgxpool.Pool, log *slog.Logger, on func(payload string), ready func()) *Listener {
	l := &Listener{
		pool: pool, log: log, on: on, ready: ready,
		channel: "pgcoord_" + strings.ToLower(rand.Text()),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Channel returns the name that others notify.
func (l *Listener) Channel() string { return l.channel }

// Works reports whether notifications arrive now.
func (l *Listener) Works() bool { return l.works.Load() }

// Start begins to listen, in the background. Further calls do nothing.
func (l *Listener) Start() {
	l.start.Do(func() {
		l.done.Add(1)
		go func() {
			defer l.done.Done()
			l.run()
		}()
	})
}

// Close ends the listener and its connection.
func (l *Listener) Close() {
	l.stop()
	l.start.Do(func() {}) // one that never started never will
	l.done.Wait()
}

func (l *Listener) run() {
	for l.ctx.Err() == nil {
		err := l.listen()
		l.works.Store(false)
		if l.ctx.Err() != nil {
			return
		}
		pause := again
		if errors.Is(err, errPooled) {
			pause = longWhile
		}
		l.log.Debug("pgcoord: not listening", "error", err)
		l.ready() // who relied on being woken must look
		_ = statement.Sleep(l.ctx, pause)
	}
}

func (l *Listener) listen() error {
	conn, err := ownconn.Connect(l.ctx, l.pool, nil)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), checkLimit)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if err := l.subscribe(conn); err != nil {
		return err
	}
	l.works.Store(true)
	l.ready()
	for {
		ctx, cancel := context.WithTimeout(l.ctx, checkEvery)
		n, err := conn.WaitForNotification(ctx)
		silent := ctx.Err() != nil && l.ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			l.on(n.Payload)
		case silent && !conn.IsClosed():
			if err := l.check(conn); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (l *Listener) subscribe(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, checkLimit)
	defer cancel()
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return errPooled
	}
	_, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.channel}.Sanitize())
	return err
}

// check finds a peer that vanished without a reset.
func (l *Listener) check(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(l.ctx, checkLimit)
	defer cancel()
	_, err := conn.Exec(ctx, "SELECT")
	return err
}
