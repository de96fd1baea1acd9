package faultproxy_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgcoord/pgcoord/internal/faultproxy"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// commits are the ways in which a COMMIT can travel.
var commits = map[string]func(t *testing.T, s scene) error{
	"simple query": func(t *testing.T, s scene) error {
		return s.begin(t).Commit(t.Context())
	},
	"unnamed statement": func(t *testing.T, s scene) error {
		tx := s.begin(t)
		return tx.Conn().PgConn().ExecParams(t.Context(), "COMMIT", nil, nil, nil, nil).Read().Err
	},
	"prepared statement": func(t *testing.T, s scene) error {
		if _, err := s.through.Prepare(t.Context(), "c1", "commit"); err != nil {
			t.Fatal(err)
		}
		tx := s.begin(t)
		return tx.Conn().PgConn().ExecPrepared(t.Context(), "c1", nil, nil, nil).Read().Err
	},
	"last of a batch": func(t *testing.T, s scene) error {
		tx := s.begin(t)
		batch := &pgx.Batch{}
		batch.Queue("SELECT n FROM t WHERE n = $1", 1)
		batch.Queue("COMMIT")
		return tx.SendBatch(t.Context(), batch).Close()
	},
	"last of a simple query": func(t *testing.T, s scene) error {
		return s.begin(t).Conn().PgConn().Exec(t.Context(), "SELECT 1; COMMIT").Close()
	},
}

func TestCommitWithoutFault(t *testing.T) {
	for name, commit := range commits {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if err := commit(t, s); err != nil || s.rows(t) != 1 {
				t.Fatalf("got %v, %d rows", err, s.rows(t))
			}
		})
	}
}

func TestForwardThenCut(t *testing.T) {
	for name, commit := range commits {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			met := s.proxy.AtNext(faultproxy.Message.Commit, faultproxy.ForwardThenCut)
			if err := commit(t, s); err == nil {
				t.Fatal("the client saw the reply")
			}
			<-met
			// At once: the cut waits for the server.
			if n := s.rows(t); n != 1 {
				t.Fatalf("%d rows, want the committed one", n)
			}
			exec(t, connect(t, s.dsn), "SELECT 1")
		})
	}
}

func TestDropAndCut(t *testing.T) {
	for name, commit := range commits {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			met := s.proxy.AtNext(faultproxy.Message.Commit, faultproxy.DropAndCut)
			if err := commit(t, s); err == nil {
				t.Fatal("the client saw a reply")
			}
			<-met
			pgtest.Eventually(t, patience, "the server's session to end", func() bool { return s.sessions(t) == 0 })
			if n := s.rows(t); n != 0 {
				t.Fatalf("%d rows, want none: COMMIT was not sent", n)
			}
		})
	}
}

func TestForwardThenFreeze(t *testing.T) {
	for name, commit := range commits {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			met := s.proxy.AtNext(faultproxy.Message.Commit, faultproxy.ForwardThenFreeze)
			result := make(chan error, 1)
			go func() { result <- commit(t, s) }()
			<-met
			pgtest.Eventually(t, patience, "the commit on the server", func() bool { return s.rows(t) == 1 })
			select {
			case err := <-result:
				t.Fatalf("a frozen connection answered: %v", err)
			default:
			}
			exec(t, connect(t, s.dsn), "SELECT 1") // others go on
			s.proxy.Thaw()
			if err := <-result; err != nil {
				t.Fatalf("after Thaw: %v", err)
			}
			exec(t, s.through, "SELECT 1")
		})
	}
}

func TestForwardThenFreezeUntilDeadline(t *testing.T) {
	s := newScene(t)
	tx := s.begin(t)
	s.proxy.AtNext(faultproxy.Message.Commit, faultproxy.ForwardThenFreeze)
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	if err := tx.Commit(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want a timeout", err)
	}
	pgtest.Eventually(t, patience, "the commit on the server", func() bool { return s.rows(t) == 1 })
}

func TestOnClientMessage(t *testing.T) {
	s := newScene(t)
	var mu sync.Mutex
	var seen []faultproxy.Message
	s.proxy.OnClientMessage(func(m faultproxy.Message) faultproxy.Action {
		if m.Executes() {
			mu.Lock()
			seen = append(seen, m)
			mu.Unlock()
		}
		return faultproxy.Forward
	})
	exec(t, s.through, "INSERT INTO t VALUES ($1)", 1)
	exec(t, s.through, "INSERT INTO t VALUES ($1)", 2) // by the cached statement
	exec(t, s.through, "DELETE FROM t")
	s.proxy.OnClientMessage(nil)
	exec(t, s.through, "SELECT 1")
	mu.Lock()
	defer mu.Unlock()
	want := []string{"INSERT", "INSERT", "DELETE"}
	if len(seen) != len(want) {
		t.Fatalf("saw %d executions, want %d", len(seen), len(want))
	}
	for i, word := range want {
		if !seen[i].Runs(word) || seen[i].Commit() {
			t.Errorf("message %d is %q, want %s", i, seen[i].SQL, word)
		}
	}
}

func TestCutAtOtherStatements(t *testing.T) {
	s := newScene(t)
	insert := func(m faultproxy.Message) bool { return m.Runs("insert") }
	s.proxy.AtNext(insert, faultproxy.ForwardThenCut)
	if _, err := s.through.Exec(t.Context(), "INSERT INTO t VALUES ($1)", 1); err == nil {
		t.Fatal("the client saw the reply")
	}
	if n := s.rows(t); n != 1 {
		t.Fatalf("%d rows, want the one of the autocommit INSERT", n)
	}
}
