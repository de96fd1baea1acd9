package demo

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
	"time"
)

// Store is a lock server in memory as many services use one: SET NX with a time
// to live, GET, DEL, and a compare-and-delete. It is exported for net/rpc.
type Store struct {
	mu      sync.Mutex
	entries map[string]entry
}

type entry struct {
	value string
	until time.Time // on this process's monotonic clock
}

// SetArgs are the arguments of SetNX.
type SetArgs struct {
	Key, Value string
	TTL        time.Duration
}

// DeleteArgs are the arguments of Delete. IfValue, when not empty, makes it a
// compare-and-delete.
type DeleteArgs struct {
	Key, IfValue string
}

// DeleteReply tells what Delete found and whether it removed it.
type DeleteReply struct {
	Found   string
	Deleted bool
}

// SetNX stores the value unless the key has one that is not over, and replies
// with the value that the key has afterwards.
func (s *Store) SetNX(args SetArgs, reply *string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := s.current(args.Key); current != "" {
		*reply = current
		return nil
	}
	s.entries[args.Key] = entry{args.Value, time.Now().Add(args.TTL)}
	*reply = args.Value
	return nil
}

// Get replies with the value of the key, "" when it has none.
func (s *Store) Get(key string, reply *string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*reply = s.current(key)
	return nil
}

// Delete removes the key.
func (s *Store) Delete(args DeleteArgs, reply *DeleteReply) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply.Found = s.current(args.Key)
	if args.IfValue == "" || args.IfValue == reply.Found {
		delete(s.entries, args.Key)
		reply.Deleted = reply.Found != ""
	}
	return nil
}

func (s *Store) current(key string) string {
	e, ok := s.entries[key]
	if !ok || !time.Now().Before(e.until) {
		return ""
	}
	return e.value
}

// storeServer serves a Store on loopback.
type storeServer struct {
	store    *Store
	listener net.Listener
	serving  sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func serveStore() (*storeServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("store of the naive lock: %w", err)
	}
	s := &storeServer{store: &Store{entries: map[string]entry{}}, listener: listener}
	server := rpc.NewServer()
	if err := server.Register(s.store); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.serving.Add(1)
			go func() {
				defer s.serving.Done()
				server.ServeConn(conn)
			}()
		}
	}()
	return s, nil
}

// close ends the server and every connection to it.
func (s *storeServer) close() error {
	err := s.listener.Close()
	s.mu.Lock()
	for _, conn := range s.conns {
		_ = conn.Close() // may be closed by its worker already
	}
	s.mu.Unlock()
	s.serving.Wait()
	return err
}
