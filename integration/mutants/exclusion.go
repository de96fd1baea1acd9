package main

// exclusionMutants break S2: one current claim.
var exclusionMutants = []mutant{
	{
		name: "grant-does-not-look-at-the-lease", clause: "S2", run: "TestGrantHoldRelease",
		edit: edit{queries, "AND t.expires_at <= pg_catalog.clock_timestamp() AND t.done_at IS NULL\n     FOR UPDATE SKIP LOCKED\n), g AS (", "AND t.done_at IS NULL\n     FOR UPDATE SKIP LOCKED\n), g AS ("},
	},
	{
		name: "grant-does-not-look-at-the-done-mark", clause: "S2 S5", run: "TestDoneReachesAllWaiters",
		edit: edit{queries, "AND t.done_at IS NULL\n     FOR UPDATE SKIP LOCKED\n), g AS (", "\n     FOR UPDATE SKIP LOCKED\n), g AS ("},
	},
	{
		name: "one-transaction-does-not-look-at-the-lease", clause: "S2", run: "TestDoTx$",
		edit: edit{queries, "AND t.expires_at <= pg_catalog.clock_timestamp() AND t.done_at IS NULL\n     FOR UPDATE SKIP LOCKED\n), n AS", "AND t.done_at IS NULL\n     FOR UPDATE SKIP LOCKED\n), n AS"},
	},
	{
		name: "completion-leaves-no-done-mark", clause: "S2 S5", run: "TestDoneReachesAllWaiters",
		edit: edit{lockFunc, "done_at = CASE WHEN p_once THEN clock_timestamp() END,", "done_at = NULL,"},
	},
	{
		name: "prune-deletes-done-marks-unasked", clause: "S2", run: "TestPrune",
		edit: edit{queries, "AND (t.done_at IS NULL OR $2::bigint > 0)", ""},
	},
	{
		name: "prune-deletes-held-keys", clause: "S2", run: "TestPrune",
		edit: edit{queries, "WHERE t.expires_at < pg_catalog.clock_timestamp() - $1::bigint * interval '1 microsecond'\n     AND", "WHERE"},
	},
	{
		name: "adopt-takes-whatever-claim-is-there", clause: "S2 S14", run: "TestForgedNotifications",
		edit: edit{queries, "AND t.claim_id = $2::text AND t.held AND t.done_at IS NULL", "AND $2::text IS NOT NULL AND t.held AND t.done_at IS NULL"},
	},
	{
		name: "close-does-not-release", clause: "S2", run: "TestConformance$/.*/S2/close_frees",
		edit: edit{"uniquelock/close.go", "err := l.Release(ctx)\n", "err := ctx.Err()\n"},
	},
	{
		name: "minimum-hold-ignored-by-release", clause: "S2", run: "TestMinimumHold/release/nobody_waits",
		edit: edit{queries, "SET held = false, ended_at = pg_catalog.clock_timestamp(),\n       expires_at = CASE WHEN t.hold_until > pg_catalog.clock_timestamp() THEN t.hold_until ELSE '-infinity' END\n WHERE", "SET held = false, ended_at = pg_catalog.clock_timestamp(), expires_at = '-infinity'\n WHERE"},
	},
	{
		name: "minimum-hold-ignored-by-completion", clause: "S2", run: "TestMinimumHold/complete/nobody_waits",
		edit: edit{queries, "done_token = t.token,\n       expires_at = CASE WHEN t.hold_until > pg_catalog.clock_timestamp() THEN t.hold_until ELSE '-infinity' END\n  FROM l", "done_token = t.token, expires_at = '-infinity'\n  FROM l"},
	},
	{
		name: "minimum-hold-ignored-by-completion-with-work", clause: "S2", run: "TestMinimumHold/complete_with_work/nobody_waits",
		edit: edit{lockFunc, "done_at = CASE WHEN p_once THEN clock_timestamp() END,\n           expires_at = CASE WHEN t.hold_until > clock_timestamp() THEN t.hold_until ELSE '-infinity' END", "done_at = CASE WHEN p_once THEN clock_timestamp() END,\n           expires_at = '-infinity'"},
	},
	{
		name: "minimum-hold-ignored-by-hand-over", clause: "S2", run: "TestMinimumHold/release/this_process_waits",
		edit: edit{queries, "     AND t.hold_until <= pg_catalog.clock_timestamp()\n     FOR UPDATE", "     FOR UPDATE"},
	},
	{
		name: "minimum-hold-ignored-by-pass", clause: "S2", run: "TestMinimumHold/release/another_process_waits",
		edit: edit{lockFunc, "IF FOUND AND l.hold_until <= clock_timestamp() THEN", "IF FOUND THEN"},
	},
	{
		name: "minimum-hold-ignored-by-one-transaction", clause: "S2", run: "TestMinimumHoldOfEachGrant/one_transaction",
		edit: edit{queries, "expires_at = CASE WHEN $5::bigint > 0 THEN pg_catalog.clock_timestamp() + $5::bigint * interval '1 microsecond' ELSE '-infinity' END", "expires_at = '-infinity'"},
	},
	{
		name: "minimum-hold-ignored-by-grant", clause: "S2", run: "TestMinimumHoldOfEachGrant/grant",
		edit: edit{queries, "hold_until = CASE WHEN $6::bigint > 0 THEN", "hold_until = CASE WHEN $6::bigint < 0 THEN"},
	},
	{
		name: "minimum-hold-ignored-by-grant-in-hand-over", clause: "S2", run: "TestMinimumHoldOfEachGrant/hand-over",
		edit: edit{queries, "hold_until = CASE WHEN $9::bigint > 0 THEN", "hold_until = CASE WHEN $9::bigint < 0 THEN"},
	},
	{
		name: "minimum-hold-ignored-by-adoption", clause: "S2", run: "TestMinimumHoldOfEachGrant/pass",
		edit: edit{queries, "hold_until = CASE WHEN $7::bigint > 0 THEN", "hold_until = CASE WHEN $7::bigint < 0 THEN"},
	},
	{
		name: "break-leaves-the-minimum-hold", clause: "S2", run: "TestBreak$",
		edit: edit{queries, "claim_id = '', expires_at = '-infinity', hold_until = '-infinity',", "claim_id = '', expires_at = greatest(t.hold_until, '-infinity'),"},
	},
	{
		name: "statements-in-the-isolation-of-the-role", clause: "S2", run: "TestOtherIsolation",
		edit: edit{"internal/statement/isolation.go", "data[isolationKey] = level == \"read committed\"\n\treturn level == \"read committed\", nil", "data[isolationKey] = true\n\treturn true, nil"},
	},
}
