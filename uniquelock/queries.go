package uniquelock

import "github.com/pgcoord/pgcoord/internal/statement"

// Seeds a key's row: free, under token 0. A statement of its own, never in a
// caller's transaction; an insert inside the granting statement could wait for a
// stranger's uncommitted one and come back with an old time and token. Guard:
// lock_timeout, for a stranger that inserts the same key and does not commit.
const seedSQL = `
INSERT INTO pgcoord.task_locks (task_name)
SELECT $1::text FROM (SELECT pg_catalog.set_config('lock_timeout', '50ms', true) AS a, ` + statement.Deferred + ` AS b) s
 WHERE s.a IS NOT NULL AND s.b IS NOT NULL
ON CONFLICT DO NOTHING`

// Grants the key if it is free, else tells what stands in the way. Guard: FOR
// UPDATE, which an open guarded transaction of the last claim does not let pass;
// SKIP LOCKED, so that it never waits.
const grantSQL = `
WITH l AS MATERIALIZED (
  SELECT t.task_name, t.token, ` + statement.Durable + ` AS durable
    FROM pgcoord.task_locks t
   WHERE t.task_name = $1::text AND t.expires_at <= pg_catalog.clock_timestamp() AND t.done_at IS NULL
     FOR UPDATE SKIP LOCKED
), g AS (
  UPDATE pgcoord.task_locks t
     SET token = greatest(l.token + 1, pgcoord.next_fencing_token()),
         claim_id = $2::text, holder = $3::text, channel = $4::text, held = true,
         locked_at = pg_catalog.clock_timestamp(), expires_at = pg_catalog.clock_timestamp() + $5::bigint * interval '1 microsecond',
         hold_until = CASE WHEN $6::bigint > 0 THEN pg_catalog.clock_timestamp() + $6::bigint * interval '1 microsecond' ELSE '-infinity' END,
         ended_at = NULL, metadata = $7::text::jsonb, note = ''
    FROM l WHERE t.task_name = l.task_name AND l.durable IS NOT NULL
  RETURNING t.token
)
SELECT 'granted', g.token, '', '', NULL::timestamptz, NULL::timestamptz, 0::bigint FROM g
UNION ALL
SELECT ` + sightColumns + ` FROM pgcoord.task_locks t WHERE t.task_name = $1::text AND NOT EXISTS (SELECT FROM g)`

// What a try that got nothing tells: the state, the claim, and how long it is
// protected, in microseconds.
const sightColumns = `
  CASE WHEN t.done_at IS NOT NULL THEN 'done' WHEN t.expires_at <= pg_catalog.clock_timestamp() THEN 'free' ELSE 'held' END,
  t.token, CASE WHEN t.held THEN t.claim_id ELSE '' END, t.holder, t.locked_at,
  CASE WHEN pg_catalog.isfinite(t.expires_at) THEN t.expires_at END,
  CASE WHEN t.expires_at > pg_catalog.clock_timestamp() AND pg_catalog.isfinite(t.expires_at)
       THEN (extract(epoch FROM t.expires_at - pg_catalog.clock_timestamp()) * 1000000)::bigint ELSE 0 END`

// Takes over a grant that was made to this process: by an earlier send of the
// same request, or under the id of its place in task_waiters. Guard: that claim
// id, still held.
const adoptSQL = `
WITH l AS MATERIALIZED (
  SELECT t.task_name, ` + statement.Durable + ` AS durable
    FROM pgcoord.task_locks t
   WHERE t.task_name = $1::text AND t.claim_id = $2::text AND t.held AND t.done_at IS NULL
     FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pgcoord.task_locks t
   SET claim_id = $3::text, holder = $4::text, channel = $5::text,
       expires_at = pg_catalog.clock_timestamp() + $6::bigint * interval '1 microsecond',
       hold_until = CASE WHEN $7::bigint > 0 THEN t.locked_at + $7::bigint * interval '1 microsecond' ELSE '-infinity' END,
       metadata = $8::text::jsonb
  FROM l WHERE t.task_name = l.task_name AND l.durable IS NOT NULL
RETURNING t.token`

// Takes a place among the waiters of other processes, or keeps it alive; no row
// when somebody has the key's row locked. Guard: the lock of the row, so that a
// release under way either sees the flag or is seen as done.
const enqueueSQL = `
WITH l AS MATERIALIZED (
  SELECT t.* FROM pgcoord.task_locks t
   WHERE t.task_name = $1::text AND ` + statement.Deferred + ` IS NOT NULL
     FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE pgcoord.task_locks t SET waiters = true
    FROM l WHERE t.task_name = l.task_name AND NOT l.waiters AND l.done_at IS NULL AND l.expires_at > pg_catalog.clock_timestamp()
), i AS (
  INSERT INTO pgcoord.task_waiters (task_name, slot_id, channel, holder, deadline)
  SELECT l.task_name, $2::text, $3::text, $4::text, pg_catalog.clock_timestamp() + $5::bigint * interval '1 microsecond'
    FROM l WHERE l.done_at IS NULL AND l.expires_at > pg_catalog.clock_timestamp() AND l.claim_id <> $2::text
  ON CONFLICT (task_name, slot_id) DO UPDATE SET deadline = excluded.deadline
)
SELECT ` + sightColumns + ` FROM l t`

// Gives the place up.
const leaveSQL = `
DELETE FROM pgcoord.task_waiters WHERE task_name = $1::text AND slot_id = $2::text`

// Gives back a grant by its claim id alone, where its token never arrived.
const giveBackSQL = `
SELECT pgcoord.pass_task(t.task_name, t.token, t.claim_id, $3::bigint * interval '1 microsecond', false)
  FROM pgcoord.task_locks t WHERE t.task_name = $1::text AND t.claim_id = $2::text AND t.held`

// Frees the key where no other process waits. Guard: the exact claim. The commit
// is deferred: lost in a crash, the key only looks held until its TTL.
const releaseSQL = `
UPDATE pgcoord.task_locks t
   SET held = false, ended_at = pg_catalog.clock_timestamp(),
       expires_at = CASE WHEN t.hold_until > pg_catalog.clock_timestamp() THEN t.hold_until ELSE '-infinity' END
 WHERE t.task_name = $1::text AND t.token = $2::bigint AND t.claim_id = $3::text AND t.held AND NOT t.waiters
   AND ` + statement.Deferred + ` IS NOT NULL`

// Ends the claim as completed where no other process waits and no guarded
// transaction of it is open. Guard: the exact claim, and FOR UPDATE.
const completeFreeSQL = `
WITH l AS MATERIALIZED (
  SELECT t.task_name, ` + statement.Durable + ` AS durable
    FROM pgcoord.task_locks t
   WHERE t.task_name = $1::text AND t.token = $2::bigint AND t.claim_id = $3::text AND t.held AND NOT t.waiters
     FOR UPDATE SKIP LOCKED
)
UPDATE pgcoord.task_locks t
   SET held = false, ended_at = pg_catalog.clock_timestamp(), done_token = t.token,
       expires_at = CASE WHEN t.hold_until > pg_catalog.clock_timestamp() THEN t.hold_until ELSE '-infinity' END
  FROM l WHERE t.task_name = l.task_name AND l.durable IS NOT NULL`

// Ends the claim in favour of the first waiting process, or frees the key.
const passSQL = `
SELECT pgcoord.pass_task($1::text, $2::bigint, $3::text, $4::bigint * interval '1 microsecond', $5::boolean)`

// Ends the claim in favour of a waiter of this process. Guard: the exact claim,
// and FOR UPDATE as in a grant.
const handOverSQL = `
WITH l AS MATERIALIZED (
  SELECT t.task_name, t.token, ` + statement.Durable + ` AS durable
    FROM pgcoord.task_locks t
   WHERE t.task_name = $1::text AND t.token = $2::bigint AND t.claim_id = $3::text AND t.held
     AND t.hold_until <= pg_catalog.clock_timestamp()
     FOR UPDATE SKIP LOCKED
)
UPDATE pgcoord.task_locks t
   SET token = greatest(l.token + 1, pgcoord.next_fencing_token()),
       done_token = CASE WHEN $4::boolean THEN l.token ELSE t.done_token END,
       claim_id = $5::text, holder = $6::text, channel = $7::text,
       locked_at = pg_catalog.clock_timestamp(), expires_at = pg_catalog.clock_timestamp() + $8::bigint * interval '1 microsecond',
       hold_until = CASE WHEN $9::bigint > 0 THEN pg_catalog.clock_timestamp() + $9::bigint * interval '1 microsecond' ELSE '-infinity' END,
       ended_at = NULL, metadata = $10::text::jsonb, note = ''
  FROM l WHERE t.task_name = l.task_name AND l.durable IS NOT NULL
RETURNING t.token, t.waiters`

// Ends the claim as done. Guard: raises PGC01 unless the exact claim is current.
const completeSQL = `
SELECT pgcoord.complete_task($1::text, $2::bigint, $3::text, $4::boolean)`

// Locks the claim for a guarded transaction. Guard: the exact claim, not ended;
// KEY SHARE, which shuts out whatever changes or ends the claim but not its
// renewal. The end of the lease is not looked at: not taken over is still mine.
const guardSQL = `
SELECT pg_catalog.pg_current_xact_id()::text,
       pg_catalog.set_config('idle_in_transaction_session_timeout', $4::text, true) || ` + statement.Durable + `
  FROM pgcoord.task_locks t
 WHERE t.task_name = $1::text AND t.token = $2::bigint AND t.claim_id = $3::text AND t.held
   FOR KEY SHARE SKIP LOCKED`

// The same in a transaction of the caller, whose settings stay as they are.
const guardInSQL = `
SELECT t.token FROM pgcoord.task_locks t
 WHERE t.task_name = $1::text AND t.token = $2::bigint AND t.claim_id = $3::text AND t.held
   FOR KEY SHARE SKIP LOCKED`

// Two completions of one claim, adopted by two processes, would both hold the
// lock of guardSQL and wait for each other: they go one after the other.
const completionTurnSQL = `
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('pgcoord complete ' || $1::text, $2::bigint))`

// Renews leases in one statement. Guard: the exact claims, in the order of their
// keys; a row locked by somebody is skipped, never waited for.
const renewSQL = `
WITH i AS (
  SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[])
           WITH ORDINALITY AS i(task_name, token, claim_id, ttl, ord)
), l AS MATERIALIZED (
  SELECT t.task_name, i.ttl, i.ord, ` + statement.Durable + ` AS durable
    FROM i JOIN pgcoord.task_locks t ON t.task_name = i.task_name
   WHERE t.token = i.token AND t.claim_id = i.claim_id AND t.held
   ORDER BY t.task_name FOR NO KEY UPDATE OF t SKIP LOCKED
), u AS (
  UPDATE pgcoord.task_locks t SET expires_at = pg_catalog.clock_timestamp() + l.ttl * interval '1 microsecond'
    FROM l WHERE t.task_name = l.task_name AND l.durable IS NOT NULL
  RETURNING l.ord
)
SELECT i.ord, u.ord IS NOT NULL, t.task_name IS NOT NULL
  FROM i LEFT JOIN u ON u.ord = i.ord
  LEFT JOIN pgcoord.task_locks t
    ON t.task_name = i.task_name AND t.token = i.token AND t.claim_id = i.claim_id AND t.held`

// Tells what stands where a claim was refused.
const currentSQL = `
SELECT t.token, t.claim_id, t.held, t.done_token, t.holder, t.note
  FROM pgcoord.task_locks t WHERE t.task_name = $1::text`

// The same once no transaction of the claim is open any more: no row while one is.
const settledSQL = currentSQL + ` FOR UPDATE SKIP LOCKED`

// Looks at a key without touching it.
const sightSQL = `SELECT ` + sightColumns + ` FROM pgcoord.task_locks t WHERE t.task_name = $1::text`

// Takes a free key within a transaction that frees it, or marks it done, by its
// commit. Guard: as in grantSQL; the lock of the row lasts until the commit.
const oneTxSQL = `
WITH l AS MATERIALIZED (
  SELECT t.task_name, t.token, pg_catalog.set_config('idle_in_transaction_session_timeout', $4::text, true) || ` + statement.Durable + ` AS limits
    FROM pgcoord.task_locks t
   WHERE t.task_name = $1::text AND t.expires_at <= pg_catalog.clock_timestamp() AND t.done_at IS NULL
     FOR UPDATE SKIP LOCKED
), n AS MATERIALIZED (
  SELECT l.task_name, l.limits, greatest(l.token + 1, pgcoord.next_fencing_token()) AS token FROM l
)
UPDATE pgcoord.task_locks t
   SET token = n.token, done_token = n.token, claim_id = $2::text, holder = $3::text, channel = '', held = false,
       locked_at = pg_catalog.clock_timestamp(), ended_at = pg_catalog.clock_timestamp(), metadata = '{}', note = '',
       hold_until = CASE WHEN $5::bigint > 0 THEN pg_catalog.clock_timestamp() + $5::bigint * interval '1 microsecond' ELSE '-infinity' END,
       expires_at = CASE WHEN $5::bigint > 0 THEN pg_catalog.clock_timestamp() + $5::bigint * interval '1 microsecond' ELSE '-infinity' END,
       done_at = CASE WHEN $6::boolean THEN pg_catalog.clock_timestamp() END
  FROM n WHERE t.task_name = n.task_name
RETURNING pg_catalog.pg_current_xact_id()::text, n.limits`

// Ends whatever claim is current. Guard: FOR UPDATE, so that no open guarded
// transaction of it is walked past; the caller tries again while there is one.
// The claim id is taken away, so that the holder's own late release is told.
const breakSQL = `
WITH l AS MATERIALIZED (
  SELECT t.task_name, t.channel, ` + statement.Durable + ` AS durable
    FROM pgcoord.task_locks t
   WHERE t.task_name = $1::text AND (t.held OR t.expires_at > pg_catalog.clock_timestamp()) AND t.done_at IS NULL
     FOR UPDATE SKIP LOCKED
), u AS (
  UPDATE pgcoord.task_locks t
     SET held = false, claim_id = '', expires_at = '-infinity', hold_until = '-infinity',
         ended_at = pg_catalog.clock_timestamp(), note = $2::text
    FROM l WHERE t.task_name = l.task_name AND l.durable IS NOT NULL
  RETURNING l.channel, t.token
), w AS (
  SELECT f.channel, f.slot_id FROM pgcoord.task_waiters f, u
   WHERE f.task_name = $1::text AND f.deadline > pg_catalog.clock_timestamp() ORDER BY f.position LIMIT 1
)
SELECT pg_catalog.pg_notify(u.channel, 'broken ' || u.token || ' ' || $2::text) FROM u WHERE u.channel <> ''
UNION ALL SELECT pg_catalog.pg_notify(w.channel, 'look ' || w.slot_id) FROM w
UNION ALL SELECT NULL FROM u`

// Lists the current claims.
const listSQL = `
SELECT h.key, h.token, h.holder, h.since, h.until, (extract(epoch FROM h.age) * 1000000)::bigint, h.metadata, h.waiters
  FROM pgcoord.held h WHERE h.strategy = 'uniquelock' ORDER BY h.since, h.key`

// Deletes some rows of keys that nobody has used for long. Guard: the age, far
// above any statement's life; FOR UPDATE SKIP LOCKED, so that no row in use is
// waited for or taken away. Later tokens still exceed the deleted ones: every
// grant draws from the sequence.
const pruneSQL = `
WITH l AS MATERIALIZED (
  SELECT t.task_name FROM pgcoord.task_locks t
   WHERE t.expires_at < pg_catalog.clock_timestamp() - $1::bigint * interval '1 microsecond'
     AND greatest(t.locked_at, t.ended_at, t.done_at) < pg_catalog.clock_timestamp()
         - CASE WHEN t.done_at IS NULL THEN $1::bigint ELSE $2::bigint END * interval '1 microsecond'
     AND (t.done_at IS NULL OR $2::bigint > 0)
     AND NOT EXISTS (SELECT FROM pgcoord.task_waiters w WHERE w.task_name = t.task_name)
   LIMIT $3::int FOR UPDATE OF t SKIP LOCKED
)
DELETE FROM pgcoord.task_locks t USING l WHERE t.task_name = l.task_name`
