package main

// cancelMutants break S13: cancelling is clean.
var cancelMutants = []mutant{
	{
		name: "cancelled-waiter-keeps-its-place", clause: "S13", run: "TestWaiterLeaves",
		edit: edit{"uniquelock/wait.go", "\tif last {\n\t\tc.leave(", "\tif last && lease != nil {\n\t\tc.leave("},
	},
	{
		name: "half-won-grant-is-not-given-back", clause: "S13", run: "TestHalfWonIsGivenBack/no_reply",
		edit: edit{"uniquelock/grant.go", "\t\tc.giveBack(r.key, r.claimID)\n\t\tr.claimID = rand.Text()", "\t\tr.claimID = rand.Text()"},
	},
	{
		name: "grant-to-a-caller-who-left-is-not-given-back", clause: "S13", run: "TestHalfWonIsGivenBack/late_reply",
		edit: edit{"uniquelock/grant.go", "\t\tc.giveBack(r.key, r.claimID)\n\t\treturn nil, nil, err", "\t\treturn nil, nil, err"},
	},
	{
		name: "hand-over-to-a-caller-who-left-is-kept", clause: "S13", run: "TestHandOverToOneWhoLeft",
		edit: edit{"uniquelock/release.go", "\t\tc.abandon(lease) // its caller", "\t\t_ = lease // its caller"},
	},
	{
		name: "late-delivery-is-kept", clause: "S13", run: "TestLateDelivery",
		edit: edit{"uniquelock/wait.go", "\tif delivered && late.lease != nil {\n\t\tc.abandon(late.lease)\n\t}\n", "\t_, _ = late, delivered\n"},
	},
	{
		name: "close-leaves-the-listener", clause: "S13", run: "TestCloseEndsItsConnections",
		edit: edit{"uniquelock/close.go", "\tc.hub.Close()\n", ""},
	},
	{
		name: "close-leaves-the-renewals", clause: "S13", run: "TestCloseEndsItsConnections",
		edit: edit{"uniquelock/close.go", "\tc.keeper.Close()\n", ""},
	},
	{
		name: "outlived-context-never-ends", clause: "S13", run: "TestConformance$/.*/S13/frozen_connection",
		edit: edit{"internal/statement/context.go", "timer := time.AfterFunc(grace, cancel)", "timer := time.AfterFunc(limit, cancel)"},
	},
}

// waitMutants break S14: Try never waits, contention is no error, waiters are woken.
var waitMutants = []mutant{
	{
		name: "try-waits-for-a-locked-row", clause: "S14", run: "TestOpenGuard",
		edit: edit{queries, forUpdate + "\n), g AS (", "FOR UPDATE\n), g AS ("},
	},
	{
		name: "try-on-a-locked-row-is-an-error", clause: "S14", run: "TestOpenGuard",
		edit: edit{queries, forUpdate + "\n), g AS (", "FOR UPDATE NOWAIT\n), g AS ("},
	},
	{
		name: "busy-try-locks-the-row", clause: "S14", run: "TestConformance$/.*/S14/busy_tries",
		edit: edit{queries, "WHERE t.task_name = $1::text AND t.expires_at <= pg_catalog.clock_timestamp() AND t.done_at IS NULL\n     FOR UPDATE SKIP LOCKED\n), g AS (", "WHERE t.task_name = $1::text AND t.done_at IS NULL\n     FOR UPDATE SKIP LOCKED\n), g AS ("},
		also: []edit{{queries, "FROM l WHERE t.task_name = l.task_name AND l.durable IS NOT NULL\n  RETURNING t.token\n)", "FROM l WHERE t.task_name = l.task_name AND l.durable IS NOT NULL AND t.expires_at <= pg_catalog.clock_timestamp()\n  RETURNING t.token\n)"}},
	},
	{
		name: "place-is-taken-without-the-flag", clause: "S14", run: "TestHandOverBetweenProcesses",
		edit: edit{queries, "SET waiters = true", "SET waiters = false"},
	},
	{
		name: "pass-does-not-notify", clause: "S14", run: "TestConformance$/.*/S14/release_wakes_another",
		edit: edit{lockFunc, "PERFORM pg_notify(n.channel, 'granted ' || n.slot_id);", ""},
	},
	{
		name: "completion-does-not-notify", clause: "S14", run: "TestCompletionWakes",
		edit: edit{lockFunc, "PERFORM pgcoord.wake_waiters(p_task, CASE WHEN NOT p_once THEN 1 END); -- all, where nothing is left to get", ""},
	},
	{
		name: "release-does-not-hand-over", clause: "S14", run: "TestHandOverInTheProcess",
		edit: edit{"uniquelock/release.go", "\treturn c.lines.Take(l.key)\n", "\treturn nil\n"},
	},
	{
		name: "hand-overs-without-end", clause: "S14", run: "TestOthersGetTheirTurn",
		edit: edit{"uniquelock/release.go", "if l.othersWait && l.streak >= turns {", "if l.othersWait && l.streak < 0 {"},
	},
	{
		name: "place-outlives-its-wait", clause: "S14", run: "TestPlaceIsGivenUp",
		edit: edit{"uniquelock/slot.go", "\tif won {\n", "\tif won && s == nil {\n"},
	},
	{
		name: "waiters-are-not-served-in-order", clause: "S14", run: "TestThousandWaiters",
		edit: edit{"internal/line/line.go", "p.at = l.byKey[key].PushBack(p)", "p.at = l.byKey[key].PushFront(p)"},
	},
	{
		name: "next-in-line-is-not-told", clause: "S14", pkg: "./internal/line", run: "Test",
		edit: edit{"internal/line/line.go", "\t} else if first {\n\t\tsignal(", "\t} else if !first {\n\t\tsignal("},
	},
	{
		name: "notification-alone-is-trusted", clause: "S14", run: "TestWakeWithoutListener",
		edit: edit{"internal/pace/pace.go", "Fallback = time.Second", "Fallback = time.Minute"},
		also: []edit{{"uniquelock/notify.go", "\tc.lines.WakeAll()\n", ""}},
	},
}

// groundMutants break S15: fail closed.
var groundMutants = []mutant{
	{
		name: "ground-is-not-looked-at", clause: "S15", run: "TestBadGround",
		edit: edit{"uniquelock/verify.go", "if g.sound.Load() {", "if !g.sound.Load() {"},
	},
	{
		name: "ground-of-one-transaction-is-not-looked-at", clause: "S15", run: "TestBadGround",
		edit: edit{"uniquelock/onetx.go", "if err := c.ground.check(ctx, c); err != nil {", "if err := ctx.Err(); err != nil {"},
	},
	{name: "sequence-with-cache", clause: "S15", run: "TestBadGround/cache", edit: edit{"internal/schema/verify.go", "add(cache != 1,", "add(cache < 1,"}},
	{name: "sequence-with-cycle", clause: "S15", run: "TestBadGround/cycle", edit: edit{"internal/schema/verify.go", "add(cycle,", "add(cycle && cache != 1,"}},
	{name: "sequence-of-integer", clause: "S15", run: "TestBadGround/integer", edit: edit{"internal/schema/verify.go", "add(!bigint,", "add(!bigint && cycle,"}},
	{name: "sequence-with-increment", clause: "S15", run: "TestBadGround/increment", edit: edit{"internal/schema/verify.go", "add(increment != 1,", "add(increment < 1,"}},
	{name: "sequence-with-another-maximum", clause: "S15", run: "TestBadGround/maximum", edit: edit{"internal/schema/verify.go", "add(bigint && limit != 1<<40-1,", "add(bigint && limit == 0,"}},
	{name: "table-unlogged", clause: "S15", run: "TestBadGround/unlogged", edit: edit{"internal/schema/verify.go", "if persistence != \"p\" {", "if persistence == \"\" {"}},
	{name: "table-without-key", clause: "S15", run: "TestBadGround/no_key", edit: edit{"internal/schema/verify.go", "); !unique {", "); !unique && persistence != \"p\" {"}},
	{name: "table-with-deferrable-key", clause: "S15", run: "TestVerify/deferrable_key", edit: edit{"internal/schema/verify.go", " AND i.indimmediate", ""}},
	{name: "table-with-timestamp", clause: "S15", run: "TestBadGround/timestamp", edit: edit{"internal/schema/verify.go", "if !have[column] {", "if !have[column] && !unique {"}},
	{name: "cluster-without-its-row", clause: "S15", run: "TestBadGround/no_cluster_row", edit: edit{"internal/schema/verify.go", "if !there {", "if !there && conn == nil {"}},
	{name: "session-read-only", clause: "S15", run: "TestVerify/read_only", edit: edit{"internal/schema/verify.go", "case readOnly:", "case readOnly && standby:"}},
	{name: "used-up-sequence-has-no-cure", clause: "S15", run: "TestUsedUpSequence", edit: edit{"internal/pgerr/pgerr.go", "case \"2200H\":", "case \"2200H?\":"}},
}
