package main

// Files that most mutants are in.
const (
	queries  = "uniquelock/queries.go"
	lockFunc = "sql/migrations/000002_task_locks.up.sql"
	baseFunc = "sql/migrations/000001_tokens.up.sql"
	gateFile = "internal/gate/gate.go"
)

// tokenMutants break S1: tokens only grow.
var tokenMutants = []mutant{
	{
		name: "grant-token-from-the-row-alone", clause: "S1", run: "TestTokensExceedDeletedRows/grant",
		edit: edit{queries, "SET token = greatest(l.token + 1, pgcoord.next_fencing_token()),\n         claim_id = $2", "SET token = l.token + 1,\n         claim_id = $2"},
	},
	{
		name: "grant-token-from-the-sequence-alone", clause: "S1", run: "TestTokensExceedTheRow/grant",
		edit: edit{queries, "SET token = greatest(l.token + 1, pgcoord.next_fencing_token()),\n         claim_id = $2", "SET token = pgcoord.next_fencing_token(),\n         claim_id = $2"},
	},
	{
		name: "hand-over-token-from-the-row-alone", clause: "S1", run: "TestTokensExceedDeletedRows/hand-over",
		edit: edit{queries, "SET token = greatest(l.token + 1, pgcoord.next_fencing_token()),\n       done_token", "SET token = l.token + 1,\n       done_token"},
	},
	{
		name: "hand-over-token-from-the-sequence-alone", clause: "S1", run: "TestTokensExceedTheRow/hand-over",
		edit: edit{queries, "SET token = greatest(l.token + 1, pgcoord.next_fencing_token()),\n       done_token", "SET token = pgcoord.next_fencing_token(),\n       done_token"},
	},
	{
		name: "pass-token-from-the-row-alone", clause: "S1", run: "TestTokensExceedDeletedRows/pass",
		edit: edit{lockFunc, "greatest(t.token + 1, pgcoord.next_fencing_token())", "t.token + 1"},
	},
	{
		name: "pass-token-from-the-sequence-alone", clause: "S1", run: "TestTokensExceedTheRow/pass",
		edit: edit{lockFunc, "greatest(t.token + 1, pgcoord.next_fencing_token())", "pgcoord.next_fencing_token()"},
	},
	{
		name: "one-transaction-token-from-the-row-alone", clause: "S1", run: "TestTokensExceedDeletedRows/one_transaction",
		edit: edit{queries, "greatest(l.token + 1, pgcoord.next_fencing_token()) AS token", "l.token + 1 AS token"},
	},
	{
		name: "one-transaction-token-from-the-sequence-alone", clause: "S1", run: "TestTokensExceedTheRow/one_transaction",
		edit: edit{queries, "greatest(l.token + 1, pgcoord.next_fencing_token()) AS token", "pgcoord.next_fencing_token() AS token"},
	},
	{
		name: "token-without-the-timeline", clause: "S1", pkg: "./internal/doccheck", run: "TestTokensGrowOverAPromotion",
		edit: edit{baseFunc, "c.epoch + ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint", "c.epoch + 1"},
	},
	{
		name: "token-without-the-epoch", clause: "S1", run: "TestRepair",
		edit: edit{baseFunc, "SELECT c.epoch + ('x'", "SELECT 0 * c.epoch + ('x'"},
	},
	{
		name: "repair-leaves-the-sequence-behind", clause: "S1", run: "TestRepair",
		edit: edit{"internal/schema/floor.go", "if largest%low > last {", "if last < 0 {"},
	},
	{
		name: "verify-overlooks-a-sequence-that-is-behind", clause: "S1 S15", run: "TestRepair",
		edit: edit{"internal/schema/floor.go", "if largest%low > last || largest/low > high {", "if largest < 0 && last > high {"},
	},
}
