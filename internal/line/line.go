// Package line lets the callers of one process that want the same thing stand in
// line: first come, first served. Only the first of a line looks for the thing
// itself; the others wait in memory. Whoever has the thing can take the first
// out of the line and deliver it.
package line

import (
	"container/list"
	"sync"
)

// Lines are the lines of a process, one for each key that is waited for. R is
// what a place asks for, T what is delivered. The zero value is ready for use.
type Lines[R, T any] struct {
	mu    sync.Mutex
	byKey map[string]*list.List // of *Place[R, T]
}

// Place is a caller's place in a line.
type Place[R, T any] struct {
	For R // what the place asks for

	lines     *Lines[R, T]
	key       string
	wake      chan struct{}
	delivered chan T
	at        *list.Element // nil while it is out of the line
	looking   bool          // it looks for itself: nobody may take it
	left      bool
}

// Join returns a new place at the end of key's line.
func (l *Lines[R, T]) Join(key string, r R) *Place[R, T] {
	p := &Place[R, T]{For: r, lines: l, key: key, wake: make(chan struct{}, 1), delivered: make(chan T, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = map[string]*list.List{}
	}
	if l.byKey[key] == nil {
		l.byKey[key] = list.New()
	}
	p.at = l.byKey[key].PushBack(p)
	return p
}

// Take takes the first place out of key's line for a delivery. It returns nil
// where nobody waits, or where the first is just looking for itself. The caller
// owes a place Deliver or Return.
func (l *Lines[R, T]) Take(key string) *Place[R, T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.byKey[key]
	if line == nil {
		return nil
	}
	p := line.Front().Value.(*Place[R, T])
	if p.looking {
		return nil
	}
	l.remove(p)
	return p
}

// WakeFirst tells the first of key's line to look again.
func (l *Lines[R, T]) WakeFirst(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeFirst(key)
}

// WakeAll tells the first of every line to look again.
func (l *Lines[R, T]) WakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.byKey {
		l.wakeFirst(key)
	}
}

// Len returns how many wait for key.
func (l *Lines[R, T]) Len(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := l.byKey[key]; line != nil {
		return line.Len()
	}
	return 0
}

func (l *Lines[R, T]) wakeFirst(key string) {
	if line := l.byKey[key]; line != nil {
		signal(line.Front().Value.(*Place[R, T]).wake)
	}
}

// remove takes p out and tells a new first that it is.
func (l *Lines[R, T]) remove(p *Place[R, T]) {
	line := l.byKey[p.key]
	first := line.Front() == p.at
	line.Remove(p.at)
	p.at = nil
	if line.Len() == 0 {
		delete(l.byKey, p.key)
	} else if first {
		signal(line.Front().Value.(*Place[R, T]).wake)
	}
}

// Wake returns a channel that receives when the place should look: it has become
// the first, or somebody said that looking may help.
func (p *Place[R, T]) Wake() <-chan struct{} { return p.wake }

// Delivered returns a channel that receives what was delivered to the place.
func (p *Place[R, T]) Delivered() <-chan T { return p.delivered }

// StartLook reports whether the place is the first of its line, and may look for
// what it asks for. If so, it owes EndLook; until then nobody takes it.
func (p *Place[R, T]) StartLook() bool {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	p.looking = p.at != nil && p.at.Prev() == nil
	return p.looking
}

// EndLook ends what StartLook began.
func (p *Place[R, T]) EndLook() {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	p.looking = false
}

// Leave gives the place up. It returns what was delivered meanwhile, if anything;
// a delivery that comes later is refused. Last reports that nobody waits for the
// key any more.
func (p *Place[R, T]) Leave() (v T, delivered, last bool) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	p.left = true
	if p.at != nil {
		p.lines.remove(p)
	}
	last = p.lines.byKey[p.key] == nil
	select {
	case v = <-p.delivered:
		return v, true, last
	default:
		return v, false, last
	}
}

// Deliver hands v to a place that was taken. It reports false when the place was
// given up meanwhile; v is the caller's then.
func (p *Place[R, T]) Deliver(v T) bool {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	if p.left {
		return false
	}
	p.delivered <- v
	return true
}

// Return puts a place that was taken back to the front of its line.
func (p *Place[R, T]) Return() {
	l := p.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.left {
		return
	}
	if l.byKey[p.key] == nil {
		l.byKey[p.key] = list.New()
	}
	p.at = l.byKey[p.key].PushFront(p)
	signal(p.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
