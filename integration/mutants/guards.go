package main

const (
	forUpdate   = "FOR UPDATE SKIP LOCKED"
	forNoKey    = "FOR NO KEY UPDATE SKIP LOCKED"
	forKeyShare = "FOR KEY SHARE SKIP LOCKED"
)

// guardMutants break S3 and S4: effects never mix, and the next one sees them.
var guardMutants = []mutant{
	{
		name: "lock-of-grant-too-weak", clause: "S3 S4", run: "TestOpenGuard",
		edit: edit{queries, forUpdate + "\n), g AS (", forNoKey + "\n), g AS ("},
	},
	{
		name: "lock-of-hand-over-too-weak", clause: "S3", run: "TestNoGrantPastOpenGuard",
		edit: edit{queries, "AND t.hold_until <= pg_catalog.clock_timestamp()\n     " + forUpdate, "AND t.hold_until <= pg_catalog.clock_timestamp()\n     " + forNoKey},
	},
	{
		name: "lock-of-break-too-weak", clause: "S3", run: "TestNoGrantPastOpenGuard",
		edit: edit{queries, "AND t.done_at IS NULL\n     " + forUpdate + "\n), u AS (", "AND t.done_at IS NULL\n     " + forNoKey + "\n), u AS ("},
	},
	{
		name: "lock-of-pass-too-weak", clause: "S3", run: "TestPassSkipsOpenGuard",
		edit: edit{lockFunc, "AND t.held\n       " + forUpdate, "AND t.held\n       " + forNoKey},
	},
	{
		name: "lock-of-completion-too-weak", clause: "S3", run: "TestCompleteWaitsForGuards",
		edit: edit{lockFunc, "AND t.held FOR UPDATE;", "AND t.held FOR NO KEY UPDATE;"},
	},
	{
		name: "lock-of-free-completion-too-weak", clause: "S3", run: "TestCompleteWaitsForGuards",
		edit: edit{queries, "AND NOT t.waiters\n     " + forUpdate, "AND NOT t.waiters\n     " + forNoKey},
	},
	{
		name: "lock-of-one-transaction-too-weak", clause: "S3", run: "TestOneTransactionSkipsOpenGuard",
		edit: edit{queries, forUpdate + "\n), n AS", forNoKey + "\n), n AS"},
	},
	{
		name: "guard-takes-no-lock", clause: "S3 S4", run: "TestOpenGuard",
		edit: edit{queries, "AND t.held\n   " + forKeyShare + "`\n\n// The same", "AND t.held`\n\n// The same"},
	},
	{
		name: "guard-in-a-callers-transaction-takes-no-lock", clause: "S3", run: "TestNoGrantPastOpenGuard",
		edit: edit{queries, "AND t.held\n   " + forKeyShare + "`\n\n// Two completions", "AND t.held`\n\n// Two completions"},
	},
	{
		name: "guard-older-than-its-grant-passes", clause: "S4", run: "TestGuardOlderThanItsGrant",
		edit: edit{"uniquelock/guarded.go", "err = guard.ErrLocked", "err = nil"},
	},
	{
		name: "guarded-in-the-isolation-of-the-role", clause: "S4", run: "TestOtherIsolation",
		edit: edit{"internal/guard/guard.go", "batch.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})", "batch.BeginTx(pgx.TxOptions{})"},
	},
	{
		name: "commit-does-not-ask-whether-it-is-the-same-transaction", clause: "S3", run: "TestConformance$/.*/S3/function_that_commits",
		edit: edit{"internal/guard/guard.go", "batch.Queue(requireSQL, b.xact)", "batch.Queue(`SELECT $1::text`, b.xact)"},
	},
	{
		name: "require-transaction-does-not-raise", clause: "S3", run: "TestConformance$/.*/S3/function_that_commits",
		edit: edit{baseFunc, "IF pg_current_xact_id_if_assigned()::text IS DISTINCT FROM xact THEN", "IF false THEN"},
	},
	{
		name: "end-does-not-wait-for-guards", clause: "S3", run: "TestConformance$/.*/S3/.*_waits_for_open_guard",
		edit: edit{gateFile, "if g.inside > 0 {", "if false {"},
	},
	{
		name: "end-leaves-the-gate-open", clause: "S3", run: "TestConformance$/.*/S3/.*_waits_for_open_guard",
		edit: edit{gateFile, "\tg.shut = true\n", ""},
	},
	{
		name: "completions-take-no-turns", clause: "S3", run: "TestSecondCompletionWaits",
		edit: edit{"uniquelock/complete.go", "spec.Before = &guard.Statement{SQL: completionTurnSQL, Args: []any{l.key, l.token}}", "_ = completionTurnSQL"},
	},
	{
		name: "function-may-go-on-after-its-return", clause: "S3", run: "TestTransactionEndsWithItsFunction",
		edit: edit{"internal/guard/guard.go", "user.closed.Store(true)", ""},
	},
}
