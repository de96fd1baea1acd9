// Package conformance proves the contract of package pgcoord, clauses S1 to S15,
// for a strategy. It sees the strategy only through pgcoord.Coordinator,
// pgcoord.Claim and pgcoord.Resolver, looks at the effects with SQL on the
// server, and takes the faults as real things: processes that are stopped and
// killed, connections that freeze and break, servers that crash.
//
// A strategy runs it from its own tests:
//
//	var strategy = conformance.Strategy{Name: "uniquelock", New: …}
//
//	func TestMain(m *testing.M)         { conformance.Main(m, strategy) }
//	func TestConformance(t *testing.T) { conformance.Run(t, strategy) }
//
// Each check has the name of its clause and a database of its own. Limits in the
// checks are bounds of the contract with room for a busy machine; what must not
// happen is never told by time alone.
package conformance
