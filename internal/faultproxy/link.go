package faultproxy

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// The codes that stand for a version at the start of a session.
const (
	codeCancel = 80877102
	codeTLS    = 80877103
	codeGSS    = 80877104
)

var errClosed = errors.New("faultproxy: connection closed")

// link is one client's connection and its own to the server.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	ctx    context.Context // ends when the link is closed
	end    context.CancelFunc

	gate chan struct{} // closed while open; guarded by proxy.mu

	mu       sync.Mutex // guards what follows
	server   *net.TCPConn
	asked    int // rounds forwarded: the start, each Query, each Sync
	answered int // rounds that the server has finished
	swallow  int // the round whose reply is swallowed; 0: none
}

func newLink(p *Proxy, client *net.TCPConn) *link {
	l := &link{proxy: p, client: client, gate: make(chan struct{})}
	close(l.gate)
	l.ctx, l.end = context.WithCancel(p.ctx)
	return l
}

// shut and open are called under proxy.mu.
func (l *link) shut() {
	select {
	case <-l.gate:
		l.gate = make(chan struct{})
	default:
	}
}

func (l *link) open() {
	select {
	case <-l.gate:
	default:
		close(l.gate)
	}
}

// pass waits for the gate to be open.
func (l *link) pass() error {
	for {
		l.proxy.mu.Lock()
		gate := l.gate
		l.proxy.mu.Unlock()
		select {
		case <-gate:
			if l.ctx.Err() != nil {
				return errClosed
			}
			return nil
		case <-l.ctx.Done():
			return errClosed
		}
	}
}

// linger holds the first message of a burst for the proxy's delay.
func (l *link) linger() {
	d := time.Duration(l.proxy.delay.Load())
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ctx.Done():
	}
}

func (l *link) close() {
	l.end()
	_ = l.client.Close() // both may be closed already
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		_ = l.server.Close()
	}
}

func (l *link) reset() {
	_ = l.client.SetLinger(0) // an error means that it is closed
	l.mu.Lock()
	if l.server != nil {
		_ = l.server.SetLinger(0)
	}
	l.mu.Unlock()
	l.close()
}

// run relays until one side ends.
func (l *link) run() {
	defer l.close()
	in := bufio.NewReader(l.client)
	first, code, err := l.greet(in)
	if err != nil {
		return
	}
	if err := l.dial(); err != nil {
		l.reset()
		return
	}
	if _, err := l.server.Write(first); err != nil {
		return
	}
	if code == codeCancel {
		// The server answers by closing when it has passed the cancel on.
		_, _ = l.server.Read(make([]byte, 1))
		_ = l.pass()
		return
	}
	l.asked = 1
	var down sync.WaitGroup
	down.Go(func() {
		defer l.close()
		l.downstream()
	})
	l.upstream(in)
	// The end of the client is held back by a freeze as its messages are.
	_ = l.pass()
	l.close()
	down.Wait()
}

// greet reads the message that starts the session and declines encryption.
func (l *link) greet(in *bufio.Reader) (first []byte, code uint32, err error) {
	for {
		first, code, err = readStart(in)
		if err != nil {
			return nil, 0, err
		}
		l.linger()
		if err := l.pass(); err != nil {
			return nil, 0, err
		}
		if code != codeTLS && code != codeGSS {
			return first, code, nil
		}
		if _, err := l.client.Write([]byte{'N'}); err != nil {
			return nil, 0, err
		}
	}
}

func (l *link) dial() error {
	var d net.Dialer
	conn, err := d.DialContext(l.ctx, "tcp", l.proxy.target)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = conn.(*net.TCPConn)
	if l.ctx.Err() != nil { // close has not seen it
		_ = l.server.Close()
		return errClosed
	}
	return nil
}
