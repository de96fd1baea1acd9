package faultproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Action is what the proxy does with a message of a client.
type Action int

const (
	// Forward sends it on.
	Forward Action = iota
	// ForwardThenCut sends it on, waits until the server is done with it,
	// swallows the reply and closes the connection.
	ForwardThenCut
	// DropAndCut closes the connection; the server never sees the message.
	DropAndCut
	// ForwardThenFreeze sends it on and freezes the connection: no reply comes
	// until Thaw.
	ForwardThenFreeze
)

// The types of messages that the proxy knows.
const (
	typeQuery    = 'Q'
	typeParse    = 'P'
	typeBind     = 'B'
	typeExecute  = 'E'
	typeClose    = 'C' // from the client
	typeSync     = 'S' // from the client
	typeFunction = 'F'
	typeReady    = 'Z' // from the server
)

// Message is one message of a client after the start of its session.
type Message struct {
	Type    byte   // as in the protocol: 'Q', 'P', 'B', 'E', 'S', …
	Payload []byte // without type and length
	SQL     string // of a Query, Parse, Bind or Execute: the statement's text
}

// Executes reports whether the message makes the server run its SQL.
func (m Message) Executes() bool { return m.Type == typeQuery || m.Type == typeExecute }

// Runs reports whether the message executes a statement that begins with word,
// in either case.
func (m Message) Runs(word string) bool {
	if !m.Executes() {
		return false
	}
	for statement := range strings.SplitSeq(m.SQL, ";") {
		fields := strings.Fields(statement)
		if len(fields) > 0 && strings.EqualFold(fields[0], word) {
			return true
		}
	}
	return false
}

// Commit reports whether the message executes a COMMIT.
func (m Message) Commit() bool { return m.Runs("COMMIT") }

// readMessage reads one message and returns it whole, type and length included.
func readMessage(r *bufio.Reader) ([]byte, error) {
	header, err := r.Peek(headerSize)
	if err != nil {
		return nil, err
	}
	return readFrame(r, 1+int(binary.BigEndian.Uint32(header[1:])))
}

// headerSize is that of the type and the length; the length counts itself.
const headerSize = 5

// readStart reads a message of the start of a session, which has no type, and
// returns it with the code that follows its length.
func readStart(r *bufio.Reader) (raw []byte, code uint32, err error) {
	const startSize = 8
	header, err := r.Peek(startSize)
	if err != nil {
		return nil, 0, err
	}
	code = binary.BigEndian.Uint32(header[4:])
	raw, err = readFrame(r, int(binary.BigEndian.Uint32(header)))
	return raw, code, err
}

func readFrame(r *bufio.Reader, size int) ([]byte, error) {
	const largest = 1 << 30
	if size < headerSize || size > largest {
		return nil, fmt.Errorf("faultproxy: a message of %d bytes", size)
	}
	raw := make([]byte, size)
	_, err := io.ReadFull(r, raw)
	return raw, err
}

// statements knows the text of a session's prepared statements and portals.
type statements struct {
	prepared map[string]string
	portals  map[string]string
}

func newStatements() statements {
	return statements{prepared: map[string]string{}, portals: map[string]string{}}
}

// message takes raw apart and remembers what later messages refer to.
func (s statements) message(raw []byte) Message {
	m := Message{Type: raw[0], Payload: raw[headerSize:]}
	switch m.Type {
	case typeQuery:
		m.SQL, _ = cutString(m.Payload)
	case typeParse:
		name, rest := cutString(m.Payload)
		m.SQL, _ = cutString(rest)
		s.prepared[name] = m.SQL
	case typeBind:
		portal, rest := cutString(m.Payload)
		name, _ := cutString(rest)
		m.SQL = s.prepared[name]
		s.portals[portal] = m.SQL
	case typeExecute:
		portal, _ := cutString(m.Payload)
		m.SQL = s.portals[portal]
	case typeClose:
		s.forget(m.Payload)
	}
	return m
}

func (s statements) forget(payload []byte) {
	if len(payload) == 0 {
		return
	}
	name, _ := cutString(payload[1:])
	if payload[0] == 'S' {
		delete(s.prepared, name)
	} else {
		delete(s.portals, name)
	}
}

func cutString(b []byte) (string, []byte) {
	head, rest, _ := bytes.Cut(b, []byte{0})
	return string(head), rest
}
