package statemachine

import (
	"fmt"
	"strings"

	"github.com/pgcoord/pgcoord/internal/statement"
)

// queries are the statements of a step, one per verb, made once the types of the
// table's columns are known. {placeholders} are what differs between tables; all
// values are parameters.
type queries struct {
	claim, batch, adopt, guard, guardIn, end, reap, supersede, readopt, look, settled, prune string
}

// The claim of one row. Guard: state Ready, under FOR NO KEY UPDATE, which is what
// a plain UPDATE takes: an open guarded transaction or a hand-made CAS shuts it
// out, a foreign-key check of a child row does not. SKIP LOCKED: it never waits.
const claimSQL = `
WITH l AS MATERIALIZED (
  SELECT {o.keys}, o.{token} AS pgcoord_token, {durable} AS pgcoord_durable
    FROM {table} o
   WHERE {o.match} AND o.{state} = $5::text::{type} AND {rested}
     FOR NO KEY UPDATE OF o SKIP LOCKED
), u AS (
  UPDATE {table} o SET {state} = $6::text::{type}, {token} = greatest(l.pgcoord_token + 1, pgcoord.next_fencing_token())
    FROM l WHERE {same} AND l.pgcoord_durable IS NOT NULL
  RETURNING o.{token} AS token
), a AS (
  INSERT INTO pgcoord.attempts (machine, key, token, claim_id, holder, channel, attempt, expires_at)
  SELECT $1::text, $2::text, u.token, $3::text, $7::text, $8::text,
         1 + coalesce((SELECT max(p.attempt) FROM pgcoord.attempts p WHERE p.machine = $1::text AND p.key = $2::text), 0),
         pg_catalog.clock_timestamp() + $4::bigint * interval '1 microsecond'
    FROM u
  RETURNING token, attempt
)
SELECT '' AS state, a.token, a.attempt, '' AS claim_id, '' AS holder, NULL::timestamptz AS since, NULL::timestamptz AS until,
       0::bigint AS remaining, '' AS outcome FROM a
UNION ALL
SELECT {sight} WHERE {o.match} AND NOT EXISTS (SELECT FROM a)`

// What stands at a row: its state (” is a grant, so NULL reads as such), the
// attempt of its token, and how long nobody may take it, in microseconds.
const sightSQL = `
  coalesce(o.{state}::text, '(null)'), coalesce(o.{token}, 0), coalesce(p.attempt, 0), coalesce(p.claim_id, ''), coalesce(p.holder, ''),
  p.started_at, p.expires_at,
  coalesce((extract(epoch FROM CASE WHEN p.ended_at IS NULL THEN p.expires_at ELSE p.retry_at END
     - pg_catalog.clock_timestamp()) * 1000000)::bigint, 0),
  coalesce(p.outcome, CASE WHEN p.token IS NULL THEN 'none' ELSE 'open' END)
  FROM {table} o LEFT JOIN pgcoord.attempts p ON p.machine = $1::text AND p.key = $2::text AND p.token = o.{token}`

// The claim of several rows. The choice is materialised, so that no plan makes it
// twice and takes more than was asked for.
const batchSQL = `
WITH l AS MATERIALIZED (
  SELECT {o.keys}, {o.text} AS pgcoord_key, o.{token} AS pgcoord_token, {durable} AS pgcoord_durable
    FROM {table} o
   WHERE o.{state} = $3::text::{type} AND {rested.any}
   ORDER BY {order} LIMIT $7::int
     FOR NO KEY UPDATE OF o SKIP LOCKED
), n AS MATERIALIZED (
  SELECT l.*, pg_catalog.row_number() OVER () AS pgcoord_ord FROM l
), u AS (
  UPDATE {table} o SET {state} = $4::text::{type}, {token} = greatest(l.pgcoord_token + 1, pgcoord.next_fencing_token())
    FROM n l WHERE {same} AND l.pgcoord_durable IS NOT NULL
  RETURNING l.pgcoord_key AS key, l.pgcoord_ord AS ord, o.{token} AS token
), a AS (
  INSERT INTO pgcoord.attempts (machine, key, token, claim_id, holder, channel, attempt, expires_at)
  SELECT $1::text, u.key, u.token, $2::text || '/' || u.token, $5::text, $6::text,
         1 + coalesce((SELECT max(p.attempt) FROM pgcoord.attempts p WHERE p.machine = $1::text AND p.key = u.key), 0),
         pg_catalog.clock_timestamp() + $8::bigint * interval '1 microsecond'
    FROM u
  RETURNING key, token, attempt, claim_id
)
SELECT a.key, a.token, a.attempt, a.claim_id FROM a JOIN u ON u.key = a.key ORDER BY u.ord`

// Takes over a grant of an earlier send of the same request. Guard: its claim id,
// not ended.
const adoptSQL = `
UPDATE pgcoord.attempts p
   SET expires_at = pg_catalog.clock_timestamp() + $4::bigint * interval '1 microsecond', holder = $5::text, channel = $6::text
 WHERE p.machine = $1::text AND p.key = $2::text AND p.claim_id = $3::text AND p.ended_at IS NULL AND {durable} IS NOT NULL
RETURNING p.token, p.attempt`

// Locks the row for a guarded transaction. Guard: state and token of the row, and
// the claim id of an attempt that has not ended.
const guardSQL = `
SELECT pg_catalog.pg_current_xact_id()::text,
       pg_catalog.set_config('idle_in_transaction_session_timeout', $5::text, true) || {durable}
  FROM {table} o
 WHERE {o.match} AND o.{state} = $6::text::{type} AND o.{token} = $3::bigint AND {mine}
   FOR NO KEY UPDATE OF o SKIP LOCKED`

// The same in a transaction of the caller, whose settings stay as they are.
const guardInSQL = `
SELECT o.{token} FROM {table} o
 WHERE {o.match} AND o.{state} = $5::text::{type} AND o.{token} = $3::bigint AND {mine}
   FOR NO KEY UPDATE OF o SKIP LOCKED`

// Ends the attempt: moves the row and closes its record. Guard: state, token and
// claim id, under the locks of both rows; it waits for a guarded transaction of the
// claim that is open on the server, for 5 s at most.
const endSQL = `
WITH l AS MATERIALIZED (
  SELECT {o.keys}, p.attempt AS pgcoord_attempt, {durable} AS pgcoord_durable
    FROM (SELECT pg_catalog.set_config('lock_timeout', '5s', true) AS limits OFFSET 0) s,
         {table} o JOIN pgcoord.attempts p ON p.machine = $1::text AND p.key = $2::text AND p.token = o.{token}
   WHERE s.limits IS NOT NULL AND {o.match} AND o.{state} = $5::text::{type} AND o.{token} = $3::bigint
     AND p.claim_id = $4::text AND p.ended_at IS NULL
     FOR NO KEY UPDATE OF o, p
), u AS (
  UPDATE {table} o SET {state} = $6::text::{type}
    FROM l WHERE {same} AND l.pgcoord_durable IS NOT NULL
  RETURNING 1
), a AS (
  UPDATE pgcoord.attempts p
     SET ended_at = pg_catalog.clock_timestamp(), outcome = $7::text, result = $8::text::jsonb, error = $9::text,
         retry_at = CASE WHEN $10::bigint > 0 THEN pg_catalog.clock_timestamp() + $10::bigint * interval '1 microsecond' END
    FROM u WHERE p.machine = $1::text AND p.key = $2::text AND p.token = $3::bigint
  RETURNING p.waiters
), w AS (
  SELECT pgcoord.wake_machine($1::text, $2::text, $11::int) FROM a WHERE a.waiters
  UNION ALL SELECT pgcoord.wake_machine($1::text, '', 1) FROM a WHERE $12::boolean
)
SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM w)`

// Takes rows back whose leases are over. Guard: state and token of the row and the
// end of the lease, all under the locks of both rows, so that one that is completed
// or renewed meanwhile is left alone. $8 narrows it to one key.
const reapSQL = `
WITH l AS MATERIALIZED (
  SELECT {o.keys}, p.key AS pgcoord_key, p.token AS pgcoord_token, p.attempt AS pgcoord_attempt, {durable} AS pgcoord_durable
    FROM pgcoord.attempts p JOIN {table} o ON {o.parsed} AND o.{token} = p.token
   WHERE p.machine = $1::text AND p.ended_at IS NULL AND p.expires_at <= pg_catalog.clock_timestamp()
     AND o.{state} = $2::text::{type} AND ($8::text IS NULL OR p.key = $8::text)
     AND NOT p.key = ANY ($9::text[])
   ORDER BY p.key LIMIT $7::int
     FOR NO KEY UPDATE OF o, p SKIP LOCKED
), u AS (
  UPDATE {table} o
     SET {state} = CASE WHEN $5::int > 0 AND l.pgcoord_attempt >= $5::int THEN $4::text ELSE $3::text END::{type}
    FROM l WHERE {same} AND l.pgcoord_durable IS NOT NULL AND o.{state} = $2::text::{type} AND o.{token} = l.pgcoord_token
  RETURNING l.pgcoord_key AS key, l.pgcoord_token AS token, l.pgcoord_attempt AS attempt, o.{state}::text AS state
), a AS (
  UPDATE pgcoord.attempts p
     SET ended_at = pg_catalog.clock_timestamp(), outcome = 'lease expired', error = 'the lease of ' || p.holder || ' ended',
         retry_at = CASE WHEN $6::bigint > 0 THEN pg_catalog.clock_timestamp()
           + least($6::bigint * 2::numeric ^ least(u.attempt - 1, 40), $10::bigint)::bigint * interval '1 microsecond' END
    FROM u WHERE p.machine = $1::text AND p.key = u.key AND p.token = u.token
  RETURNING p.key, p.token, p.attempt, p.waiters, u.state
), w AS (
  SELECT pgcoord.wake_machine($1::text, a.key, 2) FROM a WHERE a.waiters
  UNION ALL SELECT pgcoord.wake_machine($1::text, '', (SELECT count(*) FROM a)::int)
)
SELECT a.key, a.token, a.attempt, a.state, (SELECT count(*) FROM w) FROM a ORDER BY a.key`

// Closes the record of attempts whose row went on without them: moved by a plain
// transition, claimed under another token, or deleted. Only after their lease.
const supersedeSQL = `
UPDATE pgcoord.attempts p
   SET ended_at = pg_catalog.clock_timestamp(), outcome = 'superseded'
 WHERE p.machine = $1::text AND p.ended_at IS NULL AND p.expires_at <= pg_catalog.clock_timestamp()
   AND NOT EXISTS (SELECT FROM {table} o WHERE {o.parsed} AND o.{token} = p.token AND o.{state} = $2::text::{type})`

// Brings a row back to a worker that was late, where nobody has claimed it since.
// Guard: the row is Ready under the same token, and its attempt was ended by the
// reaper, not by its holder.
const readoptSQL = `
WITH l AS MATERIALIZED (
  SELECT {o.keys}, {durable} AS pgcoord_durable
    FROM {table} o JOIN pgcoord.attempts p ON p.machine = $1::text AND p.key = $2::text AND p.token = o.{token}
   WHERE {o.match} AND o.{state} = $5::text::{type} AND o.{token} = $3::bigint
     AND p.claim_id = $4::text AND p.outcome = 'lease expired'
     FOR NO KEY UPDATE OF o, p SKIP LOCKED
), u AS (
  UPDATE {table} o SET {state} = $6::text::{type}
    FROM l WHERE {same} AND l.pgcoord_durable IS NOT NULL
  RETURNING 1
)
UPDATE pgcoord.attempts p
   SET ended_at = NULL, outcome = NULL, error = NULL, retry_at = NULL,
       expires_at = pg_catalog.clock_timestamp() + $7::bigint * interval '1 microsecond'
  FROM u WHERE p.machine = $1::text AND p.key = $2::text AND p.token = $3::bigint`

// Tells what stands at a row, and what became of an attempt on it.
const lookSQL = `
SELECT coalesce(o.{state}::text, ''), coalesce(o.{token}, 0), coalesce(q.holder, ''),
       coalesce(p.outcome, CASE WHEN p.token IS NULL THEN 'none' ELSE 'open' END)
  FROM (SELECT 1) one
  LEFT JOIN {table} o ON {o.match}
  LEFT JOIN pgcoord.attempts p ON p.machine = $1::text AND p.key = $2::text AND p.token = $3::bigint AND p.claim_id = $4::text
  LEFT JOIN pgcoord.attempts q ON q.machine = $1::text AND q.key = $2::text AND q.token = o.{token}`

// The outcome of an attempt once no transaction of it is open any more: no row
// while one is.
const settledSQL = `
SELECT coalesce(p.outcome, 'open')
  FROM {table} o JOIN pgcoord.attempts p ON p.machine = $1::text AND p.key = $2::text AND p.token = $3::bigint AND p.claim_id = $4::text
 WHERE {o.match}
   FOR NO KEY UPDATE OF o SKIP LOCKED`

// Renews leases in one statement, as uniquelock does. Guard: the exact attempts,
// not ended; SKIP LOCKED, so that one locked row delays no other.
const renewSQL = `
WITH i AS (
  SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[])
           WITH ORDINALITY AS i(key, token, claim_id, ord)
), l AS MATERIALIZED (
  SELECT p.key, p.token, i.ord, ` + statement.Durable + ` AS durable
    FROM i JOIN pgcoord.attempts p ON p.machine = $1::text AND p.key = i.key AND p.token = i.token
   WHERE p.claim_id = i.claim_id AND p.ended_at IS NULL
   ORDER BY p.key, p.token FOR NO KEY UPDATE OF p SKIP LOCKED
), u AS (
  UPDATE pgcoord.attempts p SET expires_at = pg_catalog.clock_timestamp() + $5::bigint * interval '1 microsecond'
    FROM l WHERE p.machine = $1::text AND p.key = l.key AND p.token = l.token AND l.durable IS NOT NULL
  RETURNING l.ord
)
SELECT i.ord, u.ord IS NOT NULL,
       coalesce(p.outcome, CASE WHEN p.token IS NULL THEN 'none' ELSE 'open' END)
  FROM i LEFT JOIN u ON u.ord = i.ord
  LEFT JOIN pgcoord.attempts p ON p.machine = $1::text AND p.key = i.key AND p.token = i.token AND p.claim_id = i.claim_id`

// queries makes the statements. The key's parts are the last parameters of each.
func (m *Machine) queries(s *shape) *queries {
	fill := func(sql string, parameters int) string {
		sql = strings.ReplaceAll(sql, "{sight}", sightSQL) // has placeholders of its own
		return strings.NewReplacer(
			"{table}", m.from(), "{state}", quoted(m.state), "{token}", quoted(m.token), "{type}", s.stateType,
			"{o.match}", m.keyMatch(s, "o", parameters+1), "{o.keys}", m.keyColumns("o"), "{o.text}", m.keySQL("o"),
			"{o.parsed}", m.keyParsed(s, "o", "p.key"), "{same}", m.sameKey("o", "l"), "{durable}", statement.Durable,
			"{mine}", mineSQL, "{rested}", rested(m, "$2::text"), "{rested.any}", rested(m, m.keySQL("o")),
		).Replace(sql)
	}
	return &queries{
		claim: fill(claimSQL, 8), batch: fill(batchSQL, 8), adopt: fill(adoptSQL, 6), guard: fill(guardSQL, 6),
		guardIn: fill(guardInSQL, 5), end: fill(endSQL, 12), reap: fill(reapSQL, 10), supersede: fill(supersedeSQL, 2),
		readopt: fill(readoptSQL, 7), look: fill(lookSQL, 4), settled: fill(settledSQL, 4),
		prune: fill(pruneSQL, 5),
	}
}

// The claim that asks is an attempt that has not ended.
const mineSQL = `EXISTS (SELECT FROM pgcoord.attempts p WHERE p.machine = $1::text AND p.key = $2::text
     AND p.token = $3::bigint AND p.claim_id = $4::text AND p.ended_at IS NULL)`

// rested is the condition that the row's last attempt does not keep it back.
func rested(m *Machine, key string) string {
	return fmt.Sprintf(`NOT EXISTS (SELECT FROM pgcoord.attempts r WHERE r.machine = $1::text AND r.key = %s
     AND r.token = o.%s AND r.retry_at > pg_catalog.clock_timestamp())`, key, quoted(m.token))
}

// The token of a grant whose reply never arrived.
const grantedSQL = `
SELECT p.token FROM pgcoord.attempts p
 WHERE p.machine = $1::text AND p.key = $2::text AND p.claim_id = $3::text AND p.ended_at IS NULL`

// The keys of attempts that have outlived their leases.
const expiredSQL = `
SELECT p.key FROM pgcoord.attempts p
 WHERE p.machine = $1::text AND p.ended_at IS NULL AND p.expires_at <= pg_catalog.clock_timestamp() AND NOT p.key = ANY ($2::text[])
 ORDER BY p.key LIMIT $3::int`

// Ends the leases of a batch whose reply never arrived.
const forsakeSQL = `
UPDATE pgcoord.attempts p SET expires_at = pg_catalog.clock_timestamp()
 WHERE p.machine = $1::text AND p.ended_at IS NULL AND pg_catalog.starts_with(p.claim_id, $2::text)`
