// Package faultproxy is a TCP proxy before a PostgreSQL, for tests of what
// networks do: they stall, they break, and they break between a COMMIT and its
// reply.
//
//	proxy, err := faultproxy.New(target)
//	…
//	pool := pgtest.Pool(t, proxy.DSN(dsn))
//	cut := proxy.AtNext(faultproxy.Message.Commit, faultproxy.ForwardThenCut)
//	… // the next COMMIT succeeds on the server, and the client sees an error
//	<-cut
//
// It understands the frontend's half of the protocol as far as such tests need:
// where messages begin, and which statement an Execute runs. It does not speak
// TLS: DSN turns that off, and a client that asks for it is told no.
package faultproxy
