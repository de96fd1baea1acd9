// Package uniquelock claims keys by rows of the table pgcoord.task_locks: leases
// with fencing tokens, renewed in the background. It is the strategy for anything
// that has a name: a batch start, a task, a schedule. The key needs no row of
// yours; one is made.
//
// # How a claim works
//
// The key's row is seeded once and never deleted on release. A grant is one
// UPDATE of a free row, found by SELECT … FOR UPDATE SKIP LOCKED: it never waits,
// and a try on a held key reads one row and writes nothing. The new token is drawn
// under the lock of the row and is greater than the row's old one, and greater
// than any that the sequence gave before.
//
// A guarded transaction locks the row FOR KEY SHARE. Whatever changes or ends a
// claim locks it FOR UPDATE first, which the former shuts out; a renewal changes
// no key column and passes. So an expired holder that is inside a guarded
// transaction still counts as holding: tries answer ErrHeld and nobody waits for
// it in the database.
//
// # Waiting
//
// The callers of a process stand in line, and the first looks for all. A release
// hands the key to the next of the line in one statement, up to 16 times in a row
// while other processes wait. A process that waits has a place in the unlogged
// table pgcoord.task_waiters and is notified of its grant; the release makes that
// grant in its own statement. Nothing depends on a notification: the first of a
// line looks at the end of the lease, and every second. Behind a transaction
// pooler, where no notification arrives, it polls every 50 ms.
//
// # What it costs
//
// A claim is two statements, its renewal a share in one statement per third of
// the TTL. Beside the pool a coordinator keeps two connections at most.
package uniquelock
