// Package localpg finds or starts a PostgreSQL for the demo, tests and
// benchmarks.
//
// [Start] takes the first of these that there is; PGCOORD_POSTGRES=url, local,
// docker or embedded forces one:
//
//   - url: the running server that PGCOORD_DATABASE_URL names;
//   - local: initdb and postgres of this machine, from the folder that
//     PGCOORD_POSTGRES_BIN names, the newest of the places where packages put
//     them, or PATH.
//
// # Local servers
//
// A local server lives in a temporary folder and listens on a free port of
// 127.0.0.1. It trusts every connection, so every user of this machine can use
// it. It runs as this process's user; for root, which PostgreSQL refuses, as
// postgres or else nobody.
//
// It ends with this process, however that ends, and the folder goes with it: at
// Stop, or at the next start of any server when this process was killed.
package localpg
