// Package pgtest gives tests a real PostgreSQL: one server per test binary, one
// database per test.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		pool := pgtest.Pool(t, pgtest.DSN(t))
//		…
//	}
//
// The server is found or started by package localpg, at the first use. Its data
// is in memory, with fsync off, because no test pulls the plug on it;
// PGCOORD_TEST_FSYNC=on puts it on the disk. A test that restarts, kills or
// reconfigures a server uses Dedicated.
package pgtest
