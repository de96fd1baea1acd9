package statement

// Durable is an SQL expression that makes the transaction wait for the disk even
// where the role's default says off or local, and never lowers a stronger
// setting. It must be evaluated by the statement, so refer to its value.
const Durable = `pg_catalog.set_config('synchronous_commit', CASE pg_catalog.current_setting('synchronous_commit')
	WHEN 'off' THEN 'on' WHEN 'local' THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, true)`

// Deferred is the opposite, for effects whose loss in a crash does no harm.
const Deferred = `pg_catalog.set_config('synchronous_commit', 'off', true)`
