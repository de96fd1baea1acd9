package main

// operationMutants break S5: once per operation.
var operationMutants = []mutant{
	{
		name: "repeated-operation-is-not-refused", clause: "S5", run: "TestDoTx$",
		edit: edit{"internal/guard/guard.go", "case !marked:", "case !marked && spec.Finish != nil:"},
	},
	{
		name: "begin-func-does-not-mark-the-operation", clause: "S5", run: "TestOperations/begin_func",
		edit: edit{"uniquelock/guarded.go", "\tif named {\n\t\tspec.Operation = &id\n\t}\n", "\tif named && l.c.opts.Once {\n\t\tspec.Operation = &id\n\t}\n"},
	},
	{
		name: "one-transaction-does-not-mark-the-operation", clause: "S5", run: "TestOperations/one_transaction",
		edit: edit{"uniquelock/onetx.go", "\tif named {\n", "\tif named && c.opts.Once {\n"},
	},
	{
		name: "completion-without-a-function-does-not-mark-the-operation", clause: "S5", run: "TestOperations/complete_without_a_function",
		edit: edit{"uniquelock/complete.go", "if fn == nil && !named && !l.c.opts.Once {", "if fn == nil && (!named || named) && !l.c.opts.Once {"},
	},
	{
		name: "operation-is-marked-for-every-key", clause: "S5", run: "TestConformance$/.*/S5/ids_are_exact",
		edit: edit{"internal/operation/operation.go", "return ID{Domain: domain, Key: key, Operation: name}, true, nil", "return ID{Domain: domain, Key: \"any\", Operation: name}, true, nil"},
	},
	{
		name: "do-completes-under-the-operation-of-its-work", clause: "S5", pkg: ".", run: "TestDo",
		edit: edit{"do.go", "context.WithTimeout(withoutOperation(context.WithoutCancel(ctx)), endLimit)", "context.WithTimeout(context.WithoutCancel(ctx), endLimit)"},
		also: []edit{{"request.go", "\nfunc withoutOperation(", "\nvar _ = withoutOperation\n\nfunc withoutOperation("}},
	},
	{
		name: "once-is-ignored-by-one-transaction", clause: "S5", run: "TestDoTx$",
		edit: edit{queries, "done_at = CASE WHEN $6::boolean THEN pg_catalog.clock_timestamp() END", "done_at = CASE WHEN $6::boolean AND false THEN pg_catalog.clock_timestamp() END"},
	},
}

// outcomeMutants break S6: three answers.
var outcomeMutants = []mutant{
	{
		name: "resolve-only-reads", clause: "S6", run: "TestConformance$/.*/S6/resolve_waits_for_late_commit",
		edit: edit{"internal/operation/operation.go", "_, err := runner.QueryRow(ctx, withdrawSQL, args, &applied)", "_, err := runner.QueryRow(ctx, readSQL, args, &applied)\n\t_ = withdrawSQL"},
		also: []edit{{"internal/operation/operation.go", "\tif err != nil {\n\t\treturn 0, pgerr.Describe", "\tif err != nil && !errors.Is(err, pgx.ErrNoRows) {\n\t\treturn 0, pgerr.Describe"}},
	},
	{
		name: "lost-commit-reply-is-a-plain-error", clause: "S6", run: "TestConformance$/.*/S6/commit_reply_cut",
		edit: edit{"internal/guard/guard.go", "errors.Join(fmt.Errorf(\"%w: %w\", pgcoord.ErrOutcomeUnknown, err), parent.Err())", "errors.Join(err, parent.Err())"},
		also: []edit{{"internal/guard/guard.go", "\t\"github.com/pgcoord/pgcoord\"\n", ""}},
	},
	{
		name: "lost-commit-reply-is-success", clause: "S6", run: "TestConformance$/.*/S6/commit_reply_cut",
		edit: edit{"internal/guard/guard.go", "return errors.Join(fmt.Errorf(\"%w: %w\", pgcoord.ErrOutcomeUnknown, err), parent.Err())", "return nil"},
		also: []edit{{"internal/guard/guard.go", "\t\"github.com/pgcoord/pgcoord\"\n", ""}},
	},
	{
		name: "every-answer-of-the-server-is-certain", clause: "S6", run: "TestTerminatedInCommit",
		edit: edit{"internal/pgerr/pgerr.go", "return !fatal || pgErr.Code == IdleInTransaction || connecting(err)", "return !fatal || true"},
	},
	{
		name: "idle-limit-is-uncertain", clause: "S6 S12", run: "TestConformance$/.*/S12/idle_function",
		edit: edit{"internal/pgerr/pgerr.go", "return !fatal || pgErr.Code == IdleInTransaction || connecting(err)", "return !fatal || connecting(err)"},
	},
	{
		name: "commit-after-the-end-of-its-context", clause: "S6 S13", run: "TestConformance$/.*/S6/ended_before_commit",
		edit: edit{"internal/guard/guard.go", "if err := ctx.Err(); err != nil {\n\t\treturn fmt.Errorf(\"not committed: %w\", err)\n\t}\n\tcommitting", "committing"},
	},
	{
		name: "ignored-error-of-the-function-is-success", clause: "S6", run: "TestConformance$/.*/S6/ignored_error",
		edit: edit{"internal/guard/guard.go", "return fmt.Errorf(\"%w: a statement of the function failed and its error was ignored\", pgx.ErrTxCommitRollback)", "return nil"},
	},
	{
		name: "error-of-the-function-commits", clause: "S6", run: "TestConformance$/.*/S6/error_of_the_function",
		edit: edit{"internal/guard/guard.go", "if err := fn(user); err != nil {\n\t\t\treturn pgerr.Callers(err)\n\t\t}", "if err := fn(user); err != nil {\n\t\t\tcommitting = true\n\t\t\treturn errors.Join(err, b.commit(ctx, spec))\n\t\t}"},
	},
	{
		name: "complete-does-not-ask-after-a-lost-reply", clause: "S6", run: "TestCompleteAsksAfterALostReply",
		edit: edit{"uniquelock/complete.go", "err = l.settleCommit(ctx, err)", "_ = l.settleCommit"},
	},
	{
		name: "complete-asks-while-its-commit-is-under-way", clause: "S6", run: "TestCompleteWaitsForItsCommit",
		edit: edit{queries, "const settledSQL = currentSQL + ` FOR UPDATE SKIP LOCKED`", "const settledSQL = currentSQL"},
	},
	{
		name: "completion-leaves-no-trace-of-its-token", clause: "S6", run: "TestCompleteAsksAfterALostReply",
		edit: edit{lockFunc, "SET held = false, ended_at = clock_timestamp(), done_token = t.token,\n           done_at", "SET held = false, ended_at = clock_timestamp(),\n           done_at"},
	},
	{
		name: "unanswered-release-is-a-definite-failure", clause: "S6", run: "TestUnansweredRelease",
		edit: edit{"uniquelock/release.go", "\tif err == nil || !sent {\n\t\treturn err\n\t}\n\treturn fmt.Errorf(\"%w: %w\", pgcoord.ErrOutcomeUnknown, err)", "\tif err == nil || !sent || sent {\n\t\treturn err\n\t}\n\treturn fmt.Errorf(\"%w: %w\", pgcoord.ErrOutcomeUnknown, err)"},
	},
	{
		name: "runner-forgets-that-it-has-sent", clause: "S6", run: "TestUnansweredRelease",
		edit: edit{"internal/statement/runner.go", "\t\t\tresult.Sent = true\n", "\t\t\tresult.Sent = false\n"},
	},
	{
		name: "runner-does-not-send-again", clause: "S6", run: "TestLostReplies",
		edit: edit{"internal/statement/runner.go", "attempts = 3", "attempts = 1"},
	},
	{
		name: "repeated-release-does-not-know-its-own-end", clause: "S6", run: "TestLostReplies/release",
		edit: edit{"uniquelock/release.go", "\t\treturn nil // only the holder leaves that behind", "\t\treturn errGone"},
	},
	{
		name: "repeated-acquire-does-not-know-its-own-grant", clause: "S6", run: "TestLostReplies/try",
		edit: edit{"uniquelock/grant.go", "if seen.claimID == r.claimID {", "if seen.claimID == r.claimID && r.kept {"},
	},
	{
		name: "repeated-hand-over-does-not-know-its-own-grant", clause: "S6", run: "TestLostReplies/hand-over",
		edit: edit{"uniquelock/release.go", "case now.held && now.claimID == claimID:", "case now.held && now.claimID == claimID && ctx == nil:"},
	},
}
