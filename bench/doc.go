// Package bench compares the strategies with the same work in bare SQL.
//
//	go test -run '^$' -bench . ./bench
//
// Each benchmark that states a ratio measures both sides in turn, in slices of
// one run on one server, since machines are noisy: read the ratios, not the times.
// The server is a PostgreSQL of its own with fsync on (internal/localpg).
package bench
