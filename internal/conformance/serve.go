package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgcoord/pgcoord"
)

// server is the child's side: it does what the check asks, one claim for each key.
type server struct {
	strategy Strategy
	node     Coordinator

	mu     sync.Mutex
	claims map[string]pgcoord.Claim
	guards map[string]*openGuard
	out    *json.Encoder
}

// openGuard is a guarded transaction that waits for what to do.
type openGuard struct {
	work chan func(pgx.Tx) error
	done chan error // of the work
	over chan error // what BeginFunc returned
}

// serve answers requests until in ends, which it does when the check's process does.
func serve(s Strategy, in io.Reader, out io.Writer) {
	srv, err := newServer(s, out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance child:", err)
		os.Exit(2)
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, "conformance child:", err)
			os.Exit(2)
		}
		go func() {
			token, err := srv.answer(context.Background(), r)
			srv.mu.Lock()
			defer srv.mu.Unlock()
			_ = srv.out.Encode(reply{ID: r.ID, Token: token, Error: toRemote(err)})
		}()
	}
}

func newServer(s Strategy, out io.Writer) (*server, error) {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(orderEnv)), &o); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(o.DSN)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["application_name"] = o.Name
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	node, err := s.New(pool, o.Tuning)
	if err != nil {
		return nil, err
	}
	return &server{
		strategy: s, node: node, out: json.NewEncoder(out),
		claims: map[string]pgcoord.Claim{}, guards: map[string]*openGuard{},
	}, nil
}

func (s *server) answer(ctx context.Context, r request) (int64, error) {
	switch r.Op {
	case opTry:
		return s.keep(s.node.TryAcquire(ctx, r.Key))
	case opAcquire:
		return s.keep(s.node.Acquire(ctx, r.Key))
	case opIncrements:
		return 0, increments(ctx, s.node, r.Key, r.Times, s.strategy.Supersedes)
	}
	s.mu.Lock()
	claim, guard := s.claims[r.Key], s.guards[r.Key]
	s.mu.Unlock()
	if claim == nil {
		return 0, fmt.Errorf("%s: no claim on %q", r.Op, r.Key)
	}
	switch r.Op {
	case opBegin:
		return 0, s.begin(ctx, claim)
	case opCount, opEnd:
		if guard == nil {
			return 0, fmt.Errorf("%s: no guarded transaction on %q", r.Op, r.Key)
		}
		return 0, guard.answer(ctx, r.Op, claim)
	case opAdd:
		return 0, claim.BeginFunc(ctx, counting(ctx, claim))
	case opComplete:
		return 0, claim.Complete(ctx, counting(ctx, claim))
	case opRelease:
		return 0, claim.Release(ctx)
	case opLost:
		<-claim.Lost()
		return 0, nil
	}
	return 0, errors.New("unknown request " + r.Op)
}

func (s *server) keep(claim pgcoord.Claim, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[claim.Key()] = claim
	return claim.Token(), nil
}

func (s *server) begin(ctx context.Context, claim pgcoord.Claim) error {
	g := &openGuard{work: make(chan func(pgx.Tx) error), done: make(chan error), over: make(chan error, 1)}
	entered := make(chan struct{})
	go func() {
		g.over <- claim.BeginFunc(ctx, func(tx pgx.Tx) error {
			close(entered)
			for work := range g.work {
				g.done <- work(tx)
			}
			return nil
		})
	}()
	select {
	case err := <-g.over:
		return err
	case <-entered:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guards[claim.Key()] = g
	return nil
}

func (g *openGuard) answer(ctx context.Context, op string, claim pgcoord.Claim) error {
	if op == opEnd {
		close(g.work)
		return <-g.over
	}
	g.work <- counting(ctx, claim)
	return <-g.done
}
