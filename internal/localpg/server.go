package localpg

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// The kinds of server, in the order in which Start tries them.
const (
	KindURL      = "url"
	KindLocal    = "local"
	KindDocker   = "docker"
	KindEmbedded = "embedded"
)

// ErrForeign reports an operation on a server that Start found running and
// that is not its own to restart.
var ErrForeign = errors.New("localpg: the server is not ours")

// Options say how Start makes the server.
type Options struct {
	// Settings are server settings by name, for instance fsync. They are not
	// applied to a server of kind url.
	Settings map[string]string
	// Own asks for a server of its own: kind url is left out, so that the
	// server can be restarted and killed.
	Own bool
	// InMemory puts the data of a local server into a file system in memory,
	// where this machine has one with room: faster, and no use for measuring.
	InMemory bool
	// Logf is told what Start tries and does; nil discards it.
	Logf func(format string, args ...any)
}

func (o Options) logf(format string, args ...any) {
	if o.Logf != nil {
		o.Logf(format, args...)
	}
}

// Mode is a way to end a server that Restart starts again.
type Mode int

const (
	// Fast rolls open transactions back and shuts down cleanly.
	Fast Mode = iota
	// Immediate aborts all server processes; the next start recovers.
	Immediate
	// Kill ends all server processes with SIGKILL, the first one first, as a
	// crash of the machine would; but what they wrote reaches the disk.
	Kill
)

// String returns the name of the mode.
func (m Mode) String() string {
	switch m {
	case Fast:
		return "fast"
	case Immediate:
		return "immediate"
	case Kill:
		return "kill"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// Server is a running PostgreSQL. Its methods are safe for concurrent use.
type Server struct {
	kind    string
	version string
	origin  string

	mu      sync.Mutex // serialises Restart and Stop
	stopped bool
	backend backend
}

// backend is what the kinds differ in.
type backend interface {
	dsn(database string) string
	log() string
	restart(ctx context.Context, mode Mode) error
	stop() error
}

// Kind returns "url", "local", "docker" or "embedded".
func (s *Server) Kind() string { return s.kind }

// Major returns the server's major version, for instance 15.
func (s *Server) Major() int { return major(s.version) }

// String returns the kind, the version and where the server comes from.
func (s *Server) String() string {
	return fmt.Sprintf("PostgreSQL %s (%s: %s)", s.version, s.kind, s.origin)
}

// DSN returns the URL of a database on the server, for a superuser over
// loopback. For kind url it is the given DSN with another database.
func (s *Server) DSN(database string) string { return s.backend.dsn(database) }

// Log returns what the server has logged so far; "" for kind url. A server
// logs an error before it tells the client, so what a client has seen is in it;
// with kind docker it may come a moment later.
func (s *Server) Log() string { return s.backend.log() }

// Restart ends the server as mode says and starts it again on the same port,
// with the same data. It returns when the server answers.
//
// It fails with [ErrForeign] for kind url. After another failure the server
// may be down.
func (s *Server) Restart(ctx context.Context, mode Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errors.New("localpg: restart: the server was stopped")
	}
	if err := s.backend.restart(ctx, mode); err != nil {
		return fmt.Errorf("localpg: restart (%v): %w", mode, err)
	}
	return nil
}

// Stop ends the server and removes all that belongs to it. A repetition does
// nothing. For kind url it leaves the server alone.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	if err := s.backend.stop(); err != nil {
		return fmt.Errorf("localpg: stop: %w", err)
	}
	return nil
}
