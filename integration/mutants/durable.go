package main

const (
	durable    = "` + statement.Durable + ` AS durable\n    FROM pgcoord.task_locks t\n   WHERE t.task_name = $1::text AND "
	inMemory   = "true AS durable\n    FROM pgcoord.task_locks t\n   WHERE t.task_name = $1::text AND "
	exactOnly  = "t.token = $2::bigint AND t.claim_id = $3::text AND t.held"
	idleLimit  = "set_config('idle_in_transaction_session_timeout', $4::text, true)"
	raisesSync = "    IF current_setting('synchronous_commit') IN ('off', 'local') THEN\n        PERFORM set_config('synchronous_commit', 'on', true);\n    END IF;\n"
)

// durableMutants lose in a crash what was answered before, where the role does not
// wait for the disk by default.
var durableMutants = []mutant{
	{
		name: "grant-does-not-wait-for-the-disk", clause: "S1", run: "TestDurable/grant",
		edit: edit{queries, "t.token, " + durable + "t.expires_at <=", "t.token, " + inMemory + "t.expires_at <="},
	},
	{
		name: "hand-over-does-not-wait-for-the-disk", clause: "S1", run: "TestDurable/hand-over",
		edit: edit{queries, "t.token, " + durable + exactOnly + "\n     AND t.hold_until", "t.token, " + inMemory + exactOnly + "\n     AND t.hold_until"},
	},
	{
		name: "pass-does-not-wait-for-the-disk", clause: "S1", run: "TestDurable/pass",
		edit: edit{lockFunc, "    -- A grant is durable before anybody learns of it, and so is a completion.\n" + raisesSync, ""},
	},
	{
		name: "adoption-does-not-wait-for-the-disk", clause: "S2", run: "TestDurable/adoption",
		edit: edit{queries, durable + "t.claim_id = $2", inMemory + "t.claim_id = $2"},
	},
	{
		name: "renewal-does-not-wait-for-the-disk", clause: "S2", run: "TestDurable/renewal",
		edit: edit{queries, "i.ord, ` + statement.Durable + ` AS durable", "i.ord, true AS durable"},
	},
	{
		name: "guarded-transaction-does-not-wait-for-the-disk", clause: "S6", run: "TestDurable/guard",
		edit: edit{queries, idleLimit + " || ` + statement.Durable + `\n  FROM", idleLimit + "\n  FROM"},
	},
	{
		name: "one-transaction-does-not-wait-for-the-disk", clause: "S6", run: "TestDurable/one_transaction",
		edit: edit{queries, idleLimit + " || ` + statement.Durable + ` AS limits", idleLimit + " AS limits"},
	},
	{
		name: "free-completion-does-not-wait-for-the-disk", clause: "S6", run: "TestDurable/completion$",
		edit: edit{queries, durable + exactOnly + " AND NOT t.waiters\n     FOR UPDATE", inMemory + exactOnly + " AND NOT t.waiters\n     FOR UPDATE"},
	},
	{
		name: "break-does-not-wait-for-the-disk", clause: "S6", run: "TestDurable/break",
		edit: edit{queries, "t.channel, ` + statement.Durable + ` AS durable", "t.channel, true AS durable"},
	},
	{
		name: "resolve-does-not-wait-for-the-disk", clause: "S6", run: "TestDurable/resolve",
		edit: edit{"internal/operation/operation.go", "0, false WHERE ` + statement.Durable + ` IS NOT NULL", "0, false WHERE ` + statement.Deferred + ` IS NOT NULL"},
	},
}
