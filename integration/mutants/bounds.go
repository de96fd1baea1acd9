package main

// keyMutants break S11: keys are exact.
var keyMutants = []mutant{
	{
		name: "keys-are-folded", clause: "S11", run: "TestConformance$/.*/S11/hostile",
		edit: edit{"uniquelock/grant.go", "r := &request{key: key, ", "r := &request{key: strings.ToLower(key), "},
		also: []edit{{"uniquelock/grant.go", "\t\"fmt\"\n", "\t\"fmt\"\n\t\"strings\"\n"}},
	},
	{
		name: "keys-are-trimmed", clause: "S11", run: "TestConformance$/.*/S11/hostile",
		edit: edit{"uniquelock/grant.go", "r := &request{key: key, ", "r := &request{key: strings.TrimSpace(key), "},
		also: []edit{{"uniquelock/grant.go", "\t\"fmt\"\n", "\t\"fmt\"\n\t\"strings\"\n"}},
	},
	{
		name: "key-column-ignores-case", clause: "S11", run: "TestConformance$/.*/S11/hostile",
		edit: edit{lockFunc, "task_name  text COLLATE \"C\" PRIMARY KEY", "task_name  text COLLATE pgcoord.folded PRIMARY KEY"},
		also: []edit{
			{lockFunc, "CREATE TABLE pgcoord.task_locks (", "CREATE COLLATION pgcoord.folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);\nCREATE TABLE pgcoord.task_locks ("},
			{lockFunc, "t.task_name AS key,", "t.task_name::text COLLATE \"C\" AS key,"},
			{"sql/migrations/000003_attempts.up.sql", "t.task_name AS key,", "t.task_name::text COLLATE \"C\" AS key,"},
		},
	},
	{
		name: "key-column-ignores-trailing-spaces", clause: "S11", run: "TestConformance$/.*/S11/hostile",
		edit: edit{lockFunc, "task_name  text COLLATE \"C\" PRIMARY KEY", "task_name  char(512) COLLATE \"C\" PRIMARY KEY"},
		also: []edit{
			{lockFunc, "t.task_name AS key,", "t.task_name::text COLLATE \"C\" AS key,"},
			{"sql/migrations/000003_attempts.up.sql", "t.task_name AS key,", "t.task_name::text COLLATE \"C\" AS key,"},
		},
	},
	{
		name: "keys-of-any-length", clause: "S11", run: "TestConformance$/.*/S11/bad_keys",
		edit: edit{"internal/keys/keys.go", "case len(name) > limit:", "case len(name) > limit && limit != maxKey:"},
	},
	{
		name: "keys-one-byte-too-short", clause: "S11", run: "TestConformance$/.*/S11/hostile",
		edit: edit{"internal/keys/keys.go", "maxKey = 512", "maxKey = 511"},
	},
	{
		name: "keys-may-be-empty", clause: "S11", run: "TestConformance$/.*/S11/bad_keys",
		edit: edit{"internal/keys/keys.go", "case name == \"\":\n\t\treturn \"it is empty\"\n\t", ""},
	},
	{
		name: "keys-with-nul", clause: "S11", run: "TestConformance$/.*/S11/bad_keys",
		edit: edit{"internal/keys/keys.go", "case strings.IndexByte(name, 0) >= 0:", "case strings.IndexByte(name, 0) > len(name):"},
	},
	{
		name: "keys-of-invalid-utf-8", clause: "S11", run: "TestConformance$/.*/S11/bad_keys",
		edit: edit{"internal/keys/keys.go", "case !utf8.ValidString(name):", "case !utf8.ValidString(\"\"):"},
	},
}

// boundMutants break S12: bounded blocking, and settings that leak to nobody.
var boundMutants = []mutant{
	{
		name: "guard-has-no-idle-limit", clause: "S12", run: "TestConformance$/.*/S12/(frozen_inside_guard|idle_function)",
		edit: edit{queries, "set_config('idle_in_transaction_session_timeout', $4::text, true) || ` + statement.Durable + `\n  FROM", "set_config('pgcoord.mutant', $4::text, true) || ` + statement.Durable + `\n  FROM"},
	},
	{
		name: "guard-leaks-its-idle-limit", clause: "S12", run: "TestSettingsStay",
		edit: edit{queries, "set_config('idle_in_transaction_session_timeout', $4::text, true) || ` + statement.Durable + `\n  FROM", "set_config('idle_in_transaction_session_timeout', $4::text, false) || ` + statement.Durable + `\n  FROM"},
	},
	{
		name: "one-transaction-has-no-idle-limit", clause: "S12", run: "TestIdleOneTransaction",
		edit: edit{queries, "set_config('idle_in_transaction_session_timeout', $4::text, true) || ` + statement.Durable + ` AS limits", "set_config('pgcoord.mutant', $4::text, true) || ` + statement.Durable + ` AS limits"},
	},
	{
		name: "one-transaction-leaks-its-idle-limit", clause: "S12", run: "TestSettingsStay",
		edit: edit{queries, "set_config('idle_in_transaction_session_timeout', $4::text, true) || ` + statement.Durable + ` AS limits", "set_config('idle_in_transaction_session_timeout', $4::text, false) || ` + statement.Durable + ` AS limits"},
	},
	{
		name: "durable-leaks", clause: "S12", run: "TestSettingsStay",
		edit: edit{"internal/statement/durable.go", "ELSE pg_catalog.current_setting('synchronous_commit') END, true)", "ELSE pg_catalog.current_setting('synchronous_commit') END, false)"},
	},
	{
		name: "deferred-leaks", clause: "S12", run: "TestSettingsStay",
		edit: edit{"internal/statement/durable.go", "set_config('synchronous_commit', 'off', true)", "set_config('synchronous_commit', 'off', false)"},
	},
	{
		name: "lock-timeout-of-completion-leaks", clause: "S12", run: "TestSettingsStay",
		edit: edit{lockFunc, "set_config('lock_timeout', '5s', true)", "set_config('lock_timeout', '5s', false)"},
	},
	{
		name: "lock-timeout-of-seed-leaks", clause: "S12", run: "TestSettingsStay",
		edit: edit{queries, "set_config('lock_timeout', '50ms', true)", "set_config('lock_timeout', '50ms', false)"},
	},
	{
		name: "seed-waits-without-limit", clause: "S12 S14", run: "TestUncommittedKey",
		edit: edit{queries, "set_config('lock_timeout', '50ms', true)", "set_config('pgcoord.mutant', '50ms', true)"},
	},
	{
		name: "completion-waits-without-limit", clause: "S12", run: "TestLockedRowIsGivenUp/complete",
		edit: edit{lockFunc, "PERFORM set_config('lock_timeout', '5s', true);", ""},
	},
	{
		name: "break-waits-without-limit", clause: "S12", run: "TestLockedRowIsGivenUp/break",
		edit: edit{"uniquelock/break.go", "case time.Now().After(limit):", "case limit.IsZero():"},
	},
	{
		name: "guard-tries-without-limit", clause: "S12", run: "TestLockedRowIsGivenUp/guard",
		edit: edit{"internal/guard/under.go", "case time.Now().After(limit):", "case limit.IsZero():"},
	},
	{
		name: "renewal-tries-without-limit", clause: "S12", run: "TestLockedRowIsGivenUp/renew",
		edit: edit{"uniquelock/renew.go", "case time.Now().After(limit):", "case limit.IsZero():"},
	},
	{
		name: "grant-to-a-dead-process-lasts", clause: "S12", run: "TestDeadWaiter",
		edit: edit{"uniquelock/slot.go", "return min(longestFirstLease, c.opts.TTL)", "return max(longestFirstLease, time.Hour)"},
	},
	{
		name: "pass-grants-to-expired-places", clause: "S12 S14", run: "TestExpiredPlaceIsPassedOver",
		edit: edit{lockFunc, "        DELETE FROM pgcoord.task_waiters w WHERE w.task_name = p_task AND w.deadline <= clock_timestamp();\n", ""},
	},
}
