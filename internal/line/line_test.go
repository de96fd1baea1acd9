package line_test

import (
	"testing"

	"github.com/pgcoord/pgcoord/internal/line"
)

type (
	lines = line.Lines[string, int]
	place = line.Place[string, int]
)

func woken(p *place) bool {
	select {
	case <-p.Wake():
		return true
	default:
		return false
	}
}

// take takes the first place of the line, which must be want.
func take(t *testing.T, l *lines, want *place) {
	t.Helper()
	if got := l.Take("k"); got != want {
		t.Fatalf("took %v, want %v", got, want)
	}
}

func TestOrder(t *testing.T) {
	var l lines
	if l.Take("k") != nil || l.Len("k") != 0 {
		t.Error("somebody waits in an empty line")
	}
	a, b, other := l.Join("k", "a"), l.Join("k", "b"), l.Join("another", "c")
	if l.Len("k") != 2 || !a.StartLook() || b.StartLook() {
		t.Error("not the first, or not only the first, may look")
	}
	if l.Take("k") != nil {
		t.Error("took one who is looking")
	}
	a.EndLook()
	take(t, &l, a)
	if !woken(b) {
		t.Error("the next was not told that it is the first")
	}
	take(t, &l, b)
	if woken(other) || l.Len("another") != 1 {
		t.Error("another line was touched")
	}
}

func TestWake(t *testing.T) {
	var l lines
	a, b, other := l.Join("k", "a"), l.Join("k", "b"), l.Join("another", "c")
	l.WakeFirst("k")
	l.WakeFirst("k") // does not block
	if !woken(a) || woken(a) || woken(b) || woken(other) {
		t.Error("WakeFirst does not wake the first once")
	}
	l.WakeAll()
	if !woken(a) || woken(b) || !woken(other) {
		t.Error("WakeAll does not wake the first of each line")
	}
	l.WakeFirst("nobody")
}

func TestLeave(t *testing.T) {
	var l lines
	a, b, c := l.Join("k", "a"), l.Join("k", "b"), l.Join("k", "c")
	if _, delivered, last := b.Leave(); delivered || last || woken(c) || woken(a) {
		t.Error("who leaves from the middle changes something")
	}
	if _, _, last := a.Leave(); last || !woken(c) {
		t.Error("the next was not told that it is the first")
	}
	if _, _, last := c.Leave(); !last || l.Len("k") != 0 {
		t.Error("the last does not know that it is the last")
	}
}

func TestDelivery(t *testing.T) {
	var l lines
	a := l.Join("k", "a")
	take(t, &l, a)
	if !a.Deliver(7) {
		t.Fatal("refused")
	}
	if v := <-a.Delivered(); v != 7 {
		t.Errorf("delivered %d", v)
	}

	late := l.Join("k", "late")
	take(t, &l, late)
	if !late.Deliver(8) {
		t.Fatal("refused")
	}
	if v, delivered, last := late.Leave(); v != 8 || !delivered || !last {
		t.Errorf("left with %d, %v, %v; it was delivered 8", v, delivered, last)
	}

	gone := l.Join("k", "gone")
	take(t, &l, gone)
	gone.Leave()
	if gone.Deliver(9) {
		t.Error("delivered to one who has left")
	}
}

func TestReturn(t *testing.T) {
	var l lines
	a, b := l.Join("k", "a"), l.Join("k", "b")
	take(t, &l, a)
	a.Return()
	if !woken(a) || !a.StartLook() || b.StartLook() {
		t.Error("who was returned is not the first again")
	}
	a.EndLook()
	take(t, &l, a)
	a.Leave()
	a.Return()
	if l.Len("k") != 1 {
		t.Error("one who has left was returned to the line")
	}
	take(t, &l, b)
	b.Return()
	if l.Len("k") != 1 || !woken(b) {
		t.Error("an empty line does not take back its only place")
	}
}
