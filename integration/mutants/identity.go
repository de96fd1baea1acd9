package main

const (
	exact     = "t.token = $2::bigint AND t.claim_id = $3::text AND t.held"
	anyToken  = "$2::bigint IS NOT NULL AND t.claim_id = $3::text AND t.held"
	anyClaim  = "t.token = $2::bigint AND $3::text IS NOT NULL AND t.held"
	evenEnded = "t.token = $2::bigint AND t.claim_id = $3::text"

	// What follows the exact claim in each statement.
	inGuard     = "\n   FOR KEY SHARE SKIP LOCKED`\n\n// The same"
	inGuardIn   = "\n   FOR KEY SHARE SKIP LOCKED`\n\n// Two"
	inRelease   = " AND NOT t.waiters\n   AND `"
	inComplete  = " AND NOT t.waiters\n     FOR UPDATE"
	inHandOver  = "\n     AND t.hold_until"
	inPass      = "\n       FOR UPDATE SKIP LOCKED"
	inPassFree  = ";\n    IF NOT FOUND THEN\n        RETURN 'gone'"
	inCompleted = " FOR UPDATE;"

	exactParam = "t.token = p_token AND t.claim_id = p_claim AND t.held"
	anyTokenP  = "t.claim_id = p_claim AND t.held"
	anyClaimP  = "t.token = p_token AND t.held"
	endedParam = "t.token = p_token AND t.claim_id = p_claim"

	exactRow = "WHERE t.token = i.token AND t.claim_id = i.claim_id AND t.held\n   ORDER BY"
)

// clockMutants break S7: no clock in S1 to S6.
var clockMutants = []mutant{
	{
		name: "guard-looks-at-the-lease", clause: "S7", run: "TestOverdueClaim",
		edit: edit{queries, exact + inGuard, exact + " AND t.expires_at > pg_catalog.clock_timestamp()" + inGuard},
	},
	{
		name: "renewal-looks-at-the-lease", clause: "S7", run: "TestRenewAgainstSteal",
		edit: edit{queries, exactRow, "WHERE t.token = i.token AND t.claim_id = i.claim_id AND t.held AND t.expires_at > pg_catalog.clock_timestamp()\n   ORDER BY"},
	},
	{
		name: "completion-looks-at-the-lease", clause: "S7", run: "TestOverdueClaim",
		edit: edit{lockFunc, exactParam + inCompleted, exactParam + " AND t.expires_at > clock_timestamp()" + inCompleted},
	},
	{
		name: "local-deadline-ends-the-claim", clause: "S7", run: "TestOverdueClaim",
		edit: edit{gateFile, "\tif late {\n\t\tg.tell()\n", "\tif late {\n\t\tg.state, g.cause = Gone, fmt.Errorf(\"overdue\")\n\t\tg.tell()\n"},
	},
	{
		name: "lease-counts-from-the-reply-of-the-grant", clause: "S7", run: "TestLeaseCountsFromBeforeTheQuery",
		edit: edit{"uniquelock/grant.go", "return sent, seen, c.halfWon(r, result, err)", "return sent.Add(time.Since(sent)), seen, c.halfWon(r, result, err)"},
	},
	{
		name: "lease-counts-from-the-reply-of-the-renewal", clause: "S7", run: "TestLeaseCountsFromBeforeTheQuery",
		edit: edit{"uniquelock/renew.go", "\t\tcase renewed:\n\t\t\tl.gate.Renewed(sent)", "\t\tcase renewed:\n\t\t\tl.gate.Renewed(sent.Add(time.Since(sent)))"},
	},
	{
		name: "lease-counts-from-the-reply-of-the-hand-over", clause: "S7", run: "TestLeaseCountsFromBeforeTheQuery",
		edit: edit{"uniquelock/release.go", "c.prepare(l.key, r.claimID, token, r.terms, sent)", "c.prepare(l.key, r.claimID, token, r.terms, sent.Add(time.Since(sent)))"},
	},
}

// identityMutants break S8: by claim only.
var identityMutants = []mutant{
	{name: "guard-of-any-token", clause: "S8", run: "TestLateCalls/another_token/guard", edit: edit{queries, exact + inGuard, anyToken + inGuard}},
	{name: "guard-of-any-claim-id", clause: "S8", run: "TestLateCalls/another_claim_id/guard", edit: edit{queries, exact + inGuard, anyClaim + inGuard}},
	{name: "guard-of-an-ended-claim", clause: "S8 S3", run: "TestLateCalls/ended/guard", edit: edit{queries, exact + inGuard, evenEnded + inGuard}},
	{name: "guard-in-a-callers-transaction-of-any-token", clause: "S8", run: "TestLateCalls/another_token/guard", edit: edit{queries, exact + inGuardIn, anyToken + inGuardIn}},
	{name: "guard-in-a-callers-transaction-of-any-claim-id", clause: "S8", run: "TestLateCalls/another_claim_id/guard", edit: edit{queries, exact + inGuardIn, anyClaim + inGuardIn}},
	{name: "guard-in-a-callers-transaction-of-an-ended-claim", clause: "S8 S3", run: "TestLateCalls/ended/guard", edit: edit{queries, exact + inGuardIn, evenEnded + inGuardIn}},
	{name: "renewal-of-any-token", clause: "S8", run: "TestLateCalls/another_token/renew", edit: edit{queries, exactRow, "WHERE t.claim_id = i.claim_id AND t.held\n   ORDER BY"}},
	{name: "renewal-of-any-claim-id", clause: "S8", run: "TestLateCalls/another_claim_id/renew", edit: edit{queries, exactRow, "WHERE t.token = i.token AND t.held\n   ORDER BY"}},
	{name: "renewal-of-an-ended-claim", clause: "S8", run: "TestLateCalls/ended/renew", edit: edit{queries, exactRow, "WHERE t.token = i.token AND t.claim_id = i.claim_id\n   ORDER BY"}},
	{name: "release-of-any-token", clause: "S8", run: "TestLateCalls/another_token/release", edit: edit{queries, exact + inRelease, anyToken + inRelease}},
	{name: "release-of-any-claim-id", clause: "S8", run: "TestLateCalls/another_claim_id/release", edit: edit{queries, exact + inRelease, anyClaim + inRelease}},
	{name: "release-of-an-ended-claim", clause: "S8", run: "TestLateCalls/ended/release", edit: edit{queries, exact + inRelease, evenEnded + inRelease}},
	{name: "completion-of-any-token", clause: "S8", run: "TestLateCalls/another_token/complete", edit: edit{queries, exact + inComplete, anyToken + inComplete}},
	{name: "completion-of-any-claim-id", clause: "S8", run: "TestLateCalls/another_claim_id/complete", edit: edit{queries, exact + inComplete, anyClaim + inComplete}},
	{name: "completion-of-an-ended-claim", clause: "S8", run: "TestLateCalls/ended/complete", edit: edit{queries, exact + inComplete, evenEnded + inComplete}},
	{name: "hand-over-of-any-token", clause: "S8", run: "TestLateCalls/another_token/hand-over", edit: edit{queries, exact + inHandOver, anyToken + inHandOver}},
	{name: "hand-over-of-any-claim-id", clause: "S8", run: "TestLateCalls/another_claim_id/hand-over", edit: edit{queries, exact + inHandOver, anyClaim + inHandOver}},
	{name: "hand-over-of-an-ended-claim", clause: "S8 S2", run: "TestLateCalls/ended/hand-over", edit: edit{queries, exact + inHandOver, evenEnded + inHandOver}},
	{name: "pass-of-any-token", clause: "S8", run: "TestLateCalls/another_token/release", edit: edit{lockFunc, exactParam + inPass, anyTokenP + inPass}},
	{name: "pass-of-any-claim-id", clause: "S8", run: "TestLateCalls/another_claim_id/release", edit: edit{lockFunc, exactParam + inPass, anyClaimP + inPass}},
	{name: "pass-of-an-ended-claim", clause: "S8", run: "TestLateCalls/ended/release", edit: edit{lockFunc, exactParam + inPass, endedParam + inPass}},
	{name: "pass-frees-under-any-token", clause: "S8", run: "TestLateCalls/another_token/release", edit: edit{lockFunc, exactParam + inPassFree, anyTokenP + inPassFree}},
	{name: "pass-frees-under-any-claim-id", clause: "S8", run: "TestLateCalls/another_claim_id/release", edit: edit{lockFunc, exactParam + inPassFree, anyClaimP + inPassFree}},
	{name: "pass-completes-under-any-token", clause: "S8", run: "TestLateCalls/another_token/complete", edit: edit{lockFunc, exactParam + inCompleted, anyTokenP + inCompleted}},
	{name: "pass-completes-under-any-claim-id", clause: "S8", run: "TestLateCalls/another_claim_id/complete", edit: edit{lockFunc, exactParam + inCompleted, anyClaimP + inCompleted}},
	{name: "pass-completes-an-ended-claim", clause: "S8", run: "TestLateCalls/ended/complete", edit: edit{lockFunc, exactParam + inCompleted, endedParam + inCompleted}},
	{
		name: "grant-id-is-ignored", clause: "S8 S6", run: "TestConformance$/.*/S8/grant_id_shares",
		edit: edit{"uniquelock/grant.go", "r.claimID, r.kept = \"id:\"+id, true", "r.kept = true"},
	},
	{
		name: "give-back-of-any-claim", clause: "S8 S13", run: "TestGiveBackIsOfTheClaim",
		edit: edit{queries, "WHERE t.task_name = $1::text AND t.claim_id = $2::text AND t.held`", "WHERE t.task_name = $1::text AND $2::text IS NOT NULL AND t.held`"},
	},
	{
		name: "break-leaves-the-claim-id", clause: "S8", run: "TestReleaseAfterAnUnheardBreak",
		edit: edit{queries, "SET held = false, claim_id = '', expires_at = '-infinity', hold", "SET held = false, expires_at = '-infinity', hold"},
	},
	{
		name: "leave-takes-every-place-of-the-key", clause: "S8 S14", run: "TestOthersKeepTheirPlace",
		edit: edit{queries, "DELETE FROM pgcoord.task_waiters WHERE task_name = $1::text AND slot_id = $2::text`", "DELETE FROM pgcoord.task_waiters WHERE task_name = $1::text AND $2::text IS NOT NULL`"},
	},
}
