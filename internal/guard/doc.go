// Package guard runs guarded transactions: transactions that commit only while
// the claim they belong to is current.
//
// The first statement locks the claim's row, so that whatever changes or ends
// the claim has to wait. It travels with BEGIN, and with the marker of the
// caller's operation where there is one: one round trip. Then the caller's
// function runs. The last trip carries a check that this is still the
// transaction that took the lock, because the function may have sent COMMIT and
// BEGIN itself, then whatever ends the claim, then COMMIT. A server in the middle
// of a failed pipeline skips the rest, so a check that raises keeps the COMMIT
// behind it from running.
//
// Of a transaction, three things can be known: it committed, it did not, or the
// reply to COMMIT was lost. The last is pgcoord.ErrOutcomeUnknown.
package guard
