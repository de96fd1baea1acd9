package localpg

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports that freePort gives out lie below the range from which Linux, macOS
// and Windows take the ports of outgoing connections. A client that dials a
// port of that range while its server is down can be given the same port
// itself, and then talks to nobody but itself.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// freePort returns a port of loopback that nobody listens on now.
func freePort() (int, error) {
	const tries = 100
	for range tries {
		if port := lowestPort + rand.IntN(highestPort-lowestPort); portFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1: tried %d between %d and %d", tries, lowestPort, highestPort)
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	_ = l.Close() // nobody has connected: nothing can be lost
	return true
}
