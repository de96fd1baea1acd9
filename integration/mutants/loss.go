package main

// workMutants break S9: release after the work.
var workMutants = []mutant{
	{
		name: "do-releases-when-its-context-ends", clause: "S9", pkg: ".", run: "TestDoCancelled",
		edit: edit{"do.go", "\t\tcase <-workCtx.Done():\n", "\t\tcase <-workCtx.Done():\n\t\t\t_ = claim.Release(context.WithoutCancel(ctx))\n"},
	},
	{
		name: "do-keeps-the-claim-of-a-panic", clause: "S9", pkg: ".", run: "TestDoPanic",
		edit: edit{"do.go", "_ = claim.Release(endCtx) // the panic", "_ = claim.Lost() // the panic"},
	},
	{
		name: "do-releases-with-a-context-that-is-over", clause: "S9 S13", pkg: ".", run: "TestDoAfterItsContext",
		edit: edit{"do.go", "withoutOperation(context.WithoutCancel(ctx))", "withoutOperation(ctx)"},
	},
	{
		name: "do-keeps-the-claim-of-work-that-failed", clause: "S9", run: "TestConformance$/.*/S9/error_releases",
		edit: edit{"do.go", "releaseErr := claim.Release(ctx)", "releaseErr := ctx.Err()"},
	},
	{
		name: "lease-is-not-renewed", clause: "S9 S10", run: "TestRenewalWithoutPool",
		edit: edit{"uniquelock/lease.go", "\tc.keeper.Add(l)\n", ""},
	},
}

// lossMutants break S10: loss is told in time, and not without reason.
var lossMutants = []mutant{
	{
		name: "refusal-is-not-told", clause: "S10", run: "TestBreak$",
		edit: edit{gateFile, "g.state, g.cause = Gone, cause\n\t\tg.tell()", "g.state, g.cause = Gone, cause"},
	},
	{
		name: "deadline-is-not-told", clause: "S10", run: "TestOverdueClaim",
		edit: edit{gateFile, "\tif late {\n\t\tg.tell()\n\t}", "\tif late {\n\t\tg.timer.Stop()\n\t}"},
	},
	{
		name: "break-does-not-tell-the-holder", clause: "S10", run: "TestBreak$",
		edit: edit{queries, "FROM u WHERE u.channel <> ''", "FROM u WHERE false"},
	},
	{
		name: "break-during-an-outage-of-the-listener-goes-unheard", clause: "S10", run: "TestBreakDuringAnOutage",
		edit: edit{"uniquelock/notify.go", "\tif c.listened.Swap(true) {\n\t\tc.keeper.Kick()\n\t}", "\tc.listened.Store(true)"},
	},
	{
		name: "do-does-not-cancel-the-work", clause: "S10", pkg: ".", run: "TestDoLoss",
		edit: edit{"do.go", "cancel(ErrLost)", "cancel(nil)"},
	},
	{
		name: "failed-renewal-is-a-loss", clause: "S10", run: "TestRenewalSurvivesItsConnection",
		edit: edit{"uniquelock/renew.go", "lost, err := sendRenewals(ctx, conn, plain, sent, leases)\n\tif err != nil {\n\t\treturn err\n\t}", "lost, err := sendRenewals(ctx, conn, plain, sent, leases)\n\tif err != nil {\n\t\tlost = leases\n\t}"},
	},
	{
		name: "skipped-renewal-is-a-loss", clause: "S10", run: "TestRenewalSkipsLockedRow",
		edit: edit{"uniquelock/renew.go", "\t\tcase a.Mine:\n\t\t\tl.gate.Skipped(time.Now())\n", "\t\tcase a.Mine:\n\t\t\tlost = append(lost, l)\n"},
	},
	{
		name: "renewal-waits-for-locked-rows", clause: "S10", run: "TestRenewalSkipsLockedRow",
		edit: edit{queries, "FOR NO KEY UPDATE OF t SKIP LOCKED", "FOR NO KEY UPDATE OF t"},
	},
	{
		name: "renewal-is-kept-out-by-guards", clause: "S10", run: "TestOpenGuard",
		edit: edit{queries, "FOR NO KEY UPDATE OF t SKIP LOCKED", "FOR UPDATE OF t SKIP LOCKED"},
	},
	{
		name: "renewal-needs-the-pool", clause: "S10", run: "TestRenewalWithoutPool",
		edit: edit{"uniquelock/coordinator.go", "return ownconn.Connect(ctx, c.pool, nil)", "conn, err := c.pool.Acquire(ctx)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n\treturn conn.Hijack(), nil"},
		also: []edit{{"uniquelock/coordinator.go", "\t\"github.com/pgcoord/pgcoord/internal/ownconn\"\n", ""}},
	},
	{
		name: "renewal-comes-at-the-end-of-the-lease", clause: "S10", run: "TestRenewalWithoutPool",
		edit: edit{gateFile, "due: sent.Add(ttl / 3)", "due: sent.Add(ttl)"},
	},
	{
		name: "renewal-goes-on-with-its-dead-connection", clause: "S10", run: "TestRenewalSurvivesItsConnection",
		edit: edit{"internal/renewal/keeper.go", "\tif err != nil {\n\t\tk.disconnect()\n", "\tif err != nil {\n"},
	},
	{
		name: "renewal-does-not-move-the-deadline", clause: "S10", run: "TestRenewalWithoutPool",
		edit: edit{gateFile, "deadline.After(g.deadline) && !g.isLost()", "deadline.Before(g.deadline) && !g.isLost()"},
	},
}
