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
	bin    binaries
	user   account
	folder *folder
	port   int
	logf   func(string, ...any)
	server *process // nil while it is down
}

func startLocal(ctx context.Context, o Options) (*Server, error) {
	bin, err := findBinaries(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAbsent, err)
	}
	user, err := serverAccount()
	if err != nil {
		return nil, err
	}
	sweep(o.logf)
	f, err := newFolder(user)
	if err != nil {
		return nil, err
	}
	l := &local{bin: bin, user: user, folder: f, logf: o.logf}
	if err := l.create(ctx, o); err != nil {
		return nil, errors.Join(err, l.stop())
	}
	return &Server{kind: KindLocal, version: bin.version, origin: bin.dir, backend: l}, nil
}

// create makes the data folder and starts the server on a port that is free.
func (l *local) create(ctx context.Context, o Options) error {
	if err := l.initdb(ctx); err != nil {
		return err
	}
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		l.port = port
		if err := l.configure(o.Settings); err != nil {
			return err
		}
		err = l.start(ctx)
		if err == nil {
			_, err = askVersion(ctx, l.dsn("postgres"))
			return err
		}
		if try == startTries || portFree(port) {
			return err
		}
		o.logf("localpg: port %d was taken meanwhile, trying another", port)
	}
}

func (l *local) initdb(ctx context.Context) error {
	// The locale C keeps messages in English; --no-sync, because a folder that
	// a power cut damages is not used again.
	cmd := exec.CommandContext(ctx, l.bin.path("initdb"), "--pgdata="+l.folder.data(), "--username=postgres",
		"--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := l.spawn(cmd)
	if err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	if err := p.wait(); err != nil {
		return fmt.Errorf("initdb: %w: %s", errors.Join(err, ctx.Err()), bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// start runs the server and returns when it answers.
func (l *local) start(ctx context.Context) error {
	log, err := os.OpenFile(l.folder.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	before, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	cmd := exec.Command(l.bin.path("postgres"), "-D", l.folder.data())
	cmd.Stdout, cmd.Stderr = log, log
	p, err := l.spawn(cmd)
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	for {
		if l.ready(p.pid()) {
			l.server = p
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("postgres ended: %v: %s", p.err, l.logFrom(before))
		case <-ctx.Done():
			p.kill()
			return fmt.Errorf("postgres: %w: %s", ctx.Err(), l.logFrom(before))
		case <-time.After(pollInterval):
		}
	}
}

// ready reports whether the server with that pid accepts connections. It reads
// the server's lock file, as pg_ctl does: a connection could be answered by
// another server, and each refused one is a line in the log.
func (l *local) ready(pid int) bool {
	content, err := os.ReadFile(filepath.Join(l.folder.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := bytes.Split(content, []byte("\n"))
	const statusLine = 7
	return len(lines) > statusLine &&
		string(bytes.TrimSpace(lines[0])) == fmt.Sprint(pid) &&
		string(bytes.TrimSpace(lines[statusLine])) == "ready"
}

func (l *local) restart(ctx context.Context, mode Mode) error {
	if err := l.end(mode); err != nil {
		return err
	}
	for {
		before := len(l.log())
		err := l.start(ctx)
		if err == nil || ctx.Err() != nil || !strings.Contains(l.log()[before:], lockFileExists) {
			return err
		}
		// After Kill the orphaned backends take a moment to notice.
		time.Sleep(pollInterval)
	}
}

func (l *local) stop() error {
	return errors.Join(l.end(Fast), l.folder.remove())
}

// end ends the server and waits for its first process.
func (l *local) end(mode Mode) error {
	p := l.server
	if p == nil {
		return nil
	}
	l.server = nil
	select {
	case <-p.done:
		return nil // it has ended by itself, or somebody killed it
	default:
	}
	if err := p.signal(mode); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		p.kill()
		return fmt.Errorf("the server did not end within %v and was killed", stopLimit)
	}
	return nil
}

func (l *local) spawn(cmd *exec.Cmd) (*process, error) {
	cmd.Dir = l.folder.path
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "PGDATA="+l.folder.data())
	return spawn(cmd, l.user)
}

func (l *local) dsn(database string) string { return loopbackDSN(l.port, "", database) }
