// Package pgcoord is the vocabulary of exclusion on PostgreSQL: keys, claims,
// fencing tokens, and one [Coordinator] interface over several strategies.
//
// A lock that a client checks before it writes cannot be safe: the process can
// stop between the check and the write for any length of time. Here the storage
// refuses the late write, because the claim and the data share one transaction
// manager. [Claim.BeginFunc] runs the work in a transaction that holds a row
// lock on its claim; while that transaction is open nobody is granted the key,
// and once somebody is, it can no longer begin.
//
// # Strategies
//
//	uniquelock    a row of a lock table, with a lease     batch jobs, tasks, anything with a name
//
// Each is a package of its own with a New(pool, Options), its native verbs and
// this interface. This package imports none of them.
//
// # Vocabulary
//
// A key names what is excluded: text of 1 to 512 bytes, valid UTF-8, no NUL,
// compared byte by byte. A claim is one exclusive hold on a key. A fencing token
// is a positive number, greater than that of every earlier claim on the key. A
// lease is a claim that ends by itself at a time on the database's clock unless
// it is renewed. A guarded transaction commits only while its claim is current.
//
// # The contract
//
//	S1   Tokens only grow, per key, through crash, takeover, release and prune.
//	S2   One current claim per key at each moment.
//	S3   Effects never mix: nothing of a claim commits after a later grant, or
//	     after its own completion; guarded transactions of two claims never overlap.
//	S4   What earlier claims committed is visible to the first statement of a later guard.
//	S5   With an operation id, effects are applied at most once.
//	S6   Three answers: success, a definite failure, or ErrOutcomeUnknown.
//	S7   No clock in S1 to S6; a wrong one can only make a takeover early or late.
//	S8   Renew, complete and release match the exact claim, never a name.
//	S9   A claim is released after the work has returned, and renewed until then.
//	S10  Loss is told in time. A courtesy, never a guard.
//	S11  Keys are exact: equal bytes exclude each other, all others never do.
//	S12  Bounded blocking: the dead block a key at most for the TTL or the idle limit.
//	S13  Cancelling is clean: it returns soon and leaks nothing.
//	S14  Try never waits for another holder, and contention is not an error.
//	S15  Fail closed: where the ground is not sound, refuse to grant.
//
// Outside the contract: effects outside the guarded transaction (HTTP, files,
// other databases), writers that bypass the guard, a promotion that loses
// commits, superuser tampering, and fsync=off. docs/contract.md has the whole
// text and names the tests of each clause.
package pgcoord
