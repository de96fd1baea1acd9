package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// stopLimit bounds a clean shutdown; after it the server is killed.
const stopLimit = 15 * time.Second

// startTries bounds how many ports a start tries, should others take them first.
const startTries = 5

// lockFileExists is how the log shows the SQLSTATE of a server that finds
// processes of its predecessor still running.
const lockFileExists = " state=F0001 "

// local is a server started from binaries of this machine.
type local struct {
	bin      binaries
	user     account
	folder   *folder
	settings map[string]string // all but the port
	port     int
	process  *process // nil while it is down
}

func startLocal(ctx context.Context, o Options) (*Server, error) {
	bin, err := findBinaries(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAbsent, err)
	}
	return startBinaries(ctx, KindLocal, bin, o)
}

// startBinaries makes a data folder and a server on it.
func startBinaries(ctx context.Context, kind string, bin binaries, o Options) (*Server, error) {
	l, err := newLocal(bin, o)
	if err != nil {
		return nil, err
	}
	err = l.initdb(ctx)
	if err == nil {
		err = l.startAnywhere(ctx, o)
	}
	if err != nil {
		return nil, errors.Join(err, l.stop())
	}
	return &Server{kind: kind, version: bin.version, origin: bin.dir, backend: l}, nil
}

func newLocal(bin binaries, o Options) (*local, error) {
	user, err := serverAccount()
	if err != nil {
		return nil, err
	}
	f, err := newFolder(user, o.InMemory)
	if err != nil {
		return nil, err
	}
	return &local{bin: bin, user: user, folder: f, settings: o.settings()}, nil
}

func (l *local) initdb(ctx context.Context) error {
	// The locale C keeps messages in English; --no-sync, because a folder that
	// a power cut damages is not used again.
	cmd := exec.CommandContext(ctx, l.bin.path("initdb"), "--pgdata="+l.folder.data(), "--username=postgres",
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if err := l.complete(cmd); err != nil {
		return fmt.Errorf("initdb: %w", errors.Join(err, ctx.Err()))
	}
	return l.includeSettings()
}

// startAnywhere starts the server on a port that is free.
func (l *local) startAnywhere(ctx context.Context, o Options) error {
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		l.port = port
		if err := l.configure(); err != nil {
			return err
		}
		err = l.start(ctx)
		if err == nil || try == startTries || portFree(port) {
			return err
		}
		o.logf("localpg: port %d was taken meanwhile, trying another", port)
	}
}

// start runs the server and returns when it accepts connections.
func (l *local) start(ctx context.Context) error {
	log, err := os.OpenFile(l.folder.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	before := len(l.log())
	cmd := exec.Command(l.bin.path("postgres"), "-D", l.folder.data())
	cmd.Stdout, cmd.Stderr = log, log
	p, err := l.spawn(cmd)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	for !l.ready(p.pid()) {
		select {
		case <-p.done:
			return fmt.Errorf("postgres ended (%v): %s", p.cmd.ProcessState, strings.TrimSpace(l.log()[before:]))
		case <-ctx.Done():
			p.kill()
			return fmt.Errorf("postgres: %w: %s", ctx.Err(), strings.TrimSpace(l.log()[before:]))
		case <-time.After(pollInterval):
		}
	}
	l.process = p
	return nil
}

// ready reports whether the server with that pid accepts connections. It reads
// the server's lock file, as pg_ctl does: a connection could be answered by
// another server, and each refused one is a line in the log.
func (l *local) ready(pid int) bool {
	content, err := os.ReadFile(filepath.Join(l.folder.data(), lockFile))
	if err != nil {
		return false
	}
	lines := strings.Split(string(content), "\n")
	const statusLine = 7
	if len(lines) <= statusLine || strings.TrimSpace(lines[0]) != fmt.Sprint(pid) {
		return false
	}
	status := strings.TrimSpace(lines[statusLine])
	return status == "ready" || status == "standby"
}

func (l *local) restart(ctx context.Context, mode Mode) error {
	if err := l.end(mode); err != nil {
		return err
	}
	for {
		before := len(l.log())
		err := l.start(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		// Where killAllIn cannot see them, orphans take a moment to notice.
		if !strings.Contains(l.log()[before:], lockFileExists) && portFree(l.port) {
			return err
		}
		time.Sleep(pollInterval)
	}
}

func (l *local) stop() error {
	return errors.Join(l.end(Fast), l.folder.remove())
}

// end ends the server and waits until none of its processes is left.
func (l *local) end(mode Mode) error {
	p := l.process
	if p == nil {
		return nil
	}
	l.process = nil
	if err := p.signal(mode); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	var late error
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		p.kill()
		late = fmt.Errorf("the server did not end within %v and was killed", stopLimit)
	}
	// After Kill, a busy backend does not notice that the first process is gone.
	return errors.Join(late, killAllIn(l.folder.data()))
}

// complete runs cmd to its end; an error has what it printed.
func (l *local) complete(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := l.spawn(cmd)
	if err != nil {
		return err
	}
	if err := p.wait(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

func (l *local) spawn(cmd *exec.Cmd) (*process, error) {
	cmd.Dir = l.folder.path
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	return spawn(cmd, l.user)
}

func (l *local) dsn(database string) string { return loopbackDSN(l.port, database) }

func (l *local) log() string { return l.folder.readLog() }
