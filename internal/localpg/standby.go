package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Standby starts a second server that follows s by streaming replication and
// refuses writes until it is promoted (SELECT pg_promote()). s is restarted for
// it, once. The caller stops both.
//
// It fails with [ErrForeign] unless s runs from binaries of this machine.
func (s *Server) Standby(ctx context.Context, o Options) (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	primary, ok := s.backend.(*local)
	if !ok {
		return nil, fmt.Errorf("localpg: standby of a server of kind %s: %w", s.kind, ErrForeign)
	}
	if s.stopped {
		return nil, errors.New("localpg: standby: the server was stopped")
	}
	standby, err := primary.standby(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("localpg: standby: %w", err)
	}
	return &Server{kind: s.kind, version: s.version, origin: s.origin, backend: standby}, nil
}

func (l *local) standby(ctx context.Context, o Options) (*local, error) {
	standby, err := newLocal(l.bin, o)
	if err != nil {
		return nil, err
	}
	// A cleanly ended server's folder is a whole backup.
	err = l.end(Fast)
	if err == nil {
		err = errors.Join(standby.copyFrom(ctx, l), l.start(ctx))
	}
	if err == nil {
		standby.settings["primary_conninfo"] = fmt.Sprintf("host=127.0.0.1 port=%d user=postgres", l.port)
		standby.settings["hot_standby"] = "on"
		err = standby.startAnywhere(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, standby.stop())
	}
	return standby, nil
}

// copyFrom copies the data folder of a server that is down, as the account that
// the copy runs as.
func (l *local) copyFrom(ctx context.Context, from *local) error {
	cmd := exec.CommandContext(ctx, "cp", "-R", "-p", from.folder.data(), l.folder.data())
	if err := l.complete(cmd); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	return os.WriteFile(filepath.Join(l.folder.data(), "standby.signal"), nil, 0o644)
}
