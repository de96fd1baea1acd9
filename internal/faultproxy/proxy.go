package faultproxy

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy relays connections to one server. Its methods are safe for concurrent
// use; a fault holds for the connections that are open and, where it lasts, for
// those to come.
type Proxy struct {
	listener net.Listener
	target   string
	ctx      context.Context // ends at Close
	stop     context.CancelFunc
	running  sync.WaitGroup
	delay    atomic.Int64
	hook     atomic.Pointer[func(Message) Action]

	mu     sync.Mutex // guards what follows and the gates of links
	links  map[*link]struct{}
	frozen bool
	refuse bool
}

// New starts a proxy to target, a host:port, on a free port of 127.0.0.1.
func New(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultproxy: %w", err)
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]struct{}{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the host:port on which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// DSN returns dsn, in either form, as one that goes through the proxy.
func (p *Proxy) DSN(dsn string) string {
	host, port, _ := strings.Cut(p.Addr(), ":")
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return fmt.Sprintf("%s host=%s port=%s sslmode=disable", dsn, host, port) // the last ones count
	}
	query := u.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	u.Host, u.RawQuery = p.Addr(), query.Encode()
	return u.String()
}

// Close ends the proxy and its connections and waits until all is at rest.
func (p *Proxy) Close() {
	p.stop()
	_ = p.listener.Close() // a second Close is no fault of the test
	p.Cut()
	p.running.Wait()
}

// Freeze stops relaying, both ways and for new connections too, while all
// sockets stay open: what is sent after it returns does not arrive, nor does
// the end of a connection.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = true
	for l := range p.links {
		l.shut()
	}
}

// Thaw undoes Freeze and ForwardThenFreeze: what was held arrives.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = false
	for l := range p.links {
		l.open()
	}
}

// Cut closes all connections on both sides, frozen ones too.
func (p *Proxy) Cut() {
	for _, l := range p.current() {
		l.close()
	}
}

// Reset closes all connections on both sides with RST, as a crashed machine's
// successor or a firewall does.
func (p *Proxy) Reset() {
	for _, l := range p.current() {
		l.reset()
	}
}

// Refuse, when on, ends new connections before they reach the server. Open ones
// go on.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Delay holds each burst of messages, each way, for d before it goes on; 0 ends
// that. Bursts of one connection queue behind each other.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// OnClientMessage has look decide about every message of clients from now on,
// on the goroutine of their connection; nil forwards all.
func (p *Proxy) OnClientMessage(look func(Message) Action) {
	if look == nil {
		p.hook.Store(nil)
		return
	}
	p.hook.Store(&look)
}

// AtNext does action to the first message that matches and forwards all
// others. It replaces the function given to OnClientMessage. The channel is
// closed when that message has come.
func (p *Proxy) AtNext(match func(Message) bool, action Action) <-chan struct{} {
	met := make(chan struct{})
	var done atomic.Bool
	p.OnClientMessage(func(m Message) Action {
		if !match(m) || !done.CompareAndSwap(false, true) {
			return Forward
		}
		close(met)
		return action
	})
	return met
}

func (p *Proxy) decide(m Message) Action {
	if look := p.hook.Load(); look != nil {
		return (*look)(m)
	}
	return Forward
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		client := conn.(*net.TCPConn)
		l := newLink(p, client)
		if !p.add(l) {
			l.reset()
			continue
		}
		p.running.Go(func() {
			defer p.remove(l)
			l.run()
		})
	}
}

// add makes l subject to faults, unless connections are refused.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.ctx.Err() != nil {
		return false
	}
	p.links[l] = struct{}{}
	if p.frozen {
		l.shut()
	}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) current() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}
