package statemachine

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// cutAfter is how long a server that was asked to cancel a statement has for its
// reply.
const cutAfter = time.Second

// patiently runs fn, whose statement on conn may wait for a lock as long as ctx
// lasts. When ctx ends, the server is asked to cancel the statement, so that its
// reply tells what became of it; only where none comes is the connection cut.
func patiently(ctx context.Context, conn *pgx.Conn, fn func(context.Context) error) error {
	if ctx.Done() == nil {
		return fn(ctx)
	}
	running, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var asked error
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		timer := time.AfterFunc(cutAfter, cut)
		defer timer.Stop()
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutAfter)
		defer cancel()
		asked = conn.PgConn().CancelRequest(asking)
		<-running.Done() // by the reply or by the timer
	})
	err := fn(running)
	cut()
	if !stop() {
		<-over // or the request might hit the connection's next statement
		if asked != nil {
			_ = conn.Close(context.WithoutCancel(ctx)) // as it still may
		}
	}
	return err
}
