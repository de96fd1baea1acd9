// Package localpg finds or starts a PostgreSQL for the demo, tests and
// benchmarks.
//
// [Start] takes the first of these that there is; PGCOORD_POSTGRES=url, local,
// docker or embedded forces one:
//
//   - url: the running server that PGCOORD_DATABASE_URL names;
//   - local: initdb and postgres of this machine, 14 or newer, from the folder
//     that PGCOORD_POSTGRES_BIN names, or else the newest of the places where
//     packages put them, or else PATH;
//   - docker: a container of the image PGCOORD_POSTGRES_IMAGE (postgres:17), by
//     the docker command;
//   - embedded: binaries downloaded once to the user's cache folder; not as root.
//
// A server that is named but does not answer, or is there but does not start, is
// an error, not a reason to take the next.
//
// # Servers that Start makes
//
// They listen on a free port of 127.0.0.1 and trust every connection, so every
// user of this machine can use them. Their data is in a temporary folder of its
// own (docker: a volume). A local one runs as this process's user; for root,
// which PostgreSQL refuses, as postgres or else nobody. fsync is on unless
// Options say otherwise.
//
// They end with this process, however that ends. The folder goes at Stop; that
// of a process that was killed goes at the next start of any server: each
// folder has a file that its owner keeps locked, and one that is not locked has
// no owner.
//
// initdb is run for each server, which costs half a second. A copy of a
// folder made once would cost a third of that, and have to be kept right
// between versions, users and concurrent test binaries.
package localpg
