package faultproxy

import "bufio"

// upstream relays the client's messages and does what the test wants with them.
func (l *link) upstream(in *bufio.Reader) {
	out := bufio.NewWriter(l.server)
	known := newStatements()
	for {
		burst := in.Buffered() == 0
		raw, err := readMessage(in)
		if err != nil {
			return
		}
		if burst {
			l.linger()
		}
		if l.pass() != nil {
			return
		}
		action := l.proxy.decide(known.message(raw))
		switch action {
		case DropAndCut:
			l.close()
			return
		case ForwardThenCut:
			l.swallowNext()
		case ForwardThenFreeze:
			l.freeze()
		}
		if l.forward(out, raw, in.Buffered() == 0) != nil {
			return
		}
		if action != Forward && l.finishRound(raw[0], in, out) != nil {
			return
		}
		if action == ForwardThenCut {
			<-l.ctx.Done() // downstream closes the link
			return
		}
	}
}

// finishRound forwards the rest of the messages that the server answers
// together with one of that type.
func (l *link) finishRound(last byte, in *bufio.Reader, out *bufio.Writer) error {
	for !endsRound(last) {
		raw, err := readMessage(in)
		if err != nil {
			return err
		}
		if err := l.forward(out, raw, in.Buffered() == 0); err != nil {
			return err
		}
		last = raw[0]
	}
	return out.Flush()
}

// endsRound reports whether the server answers the message with ReadyForQuery.
func endsRound(kind byte) bool {
	return kind == typeQuery || kind == typeSync || kind == typeFunction
}

func (l *link) forward(out *bufio.Writer, raw []byte, flush bool) error {
	if endsRound(raw[0]) {
		l.mu.Lock()
		l.asked++
		l.mu.Unlock()
	}
	if _, err := out.Write(raw); err != nil || !flush {
		return err
	}
	return out.Flush()
}

// swallowNext swallows the reply to the round that is being sent.
func (l *link) swallowNext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.swallow = l.asked + 1
}

func (l *link) freeze() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.shut()
}

// downstream relays the server's messages.
func (l *link) downstream() {
	in := bufio.NewReader(l.server)
	out := bufio.NewWriter(l.client)
	for {
		burst := in.Buffered() == 0
		raw, err := readMessage(in)
		if err != nil {
			_ = l.pass() // the end, too, is held back by a freeze
			return
		}
		swallow, last := l.answer(raw[0])
		if last {
			return
		}
		if swallow {
			continue
		}
		if burst {
			l.linger()
		}
		if l.pass() != nil {
			return
		}
		if _, err := out.Write(raw); err != nil {
			return
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// answer counts the rounds that the server has finished. It tells whether a
// message of the server is to be swallowed, and whether it is the last of its
// round.
func (l *link) answer(kind byte) (swallow, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	swallow = l.swallow > 0 && l.answered >= l.swallow-1
	if kind == typeReady {
		l.answered++
		last = swallow
	}
	return swallow, last
}
