package statemachine

import "github.com/pgcoord/pgcoord/internal/statement"

// The statements beside the life of a claim: waiting and pruning.

// Asks to be told of the end of an attempt. Guard: the lock of its record, so that
// its end either sees the flag or is seen. No row when it is locked or has ended.
const awaitSQL = `
WITH l AS MATERIALIZED (
  SELECT p.waiters FROM pgcoord.attempts p
   WHERE p.machine = $1::text AND p.key = $2::text AND p.token = $3::bigint AND p.ended_at IS NULL
     AND ` + statement.Deferred + ` IS NOT NULL
     FOR NO KEY UPDATE SKIP LOCKED
), u AS (
  UPDATE pgcoord.attempts p SET waiters = true
    FROM l WHERE p.machine = $1::text AND p.key = $2::text AND p.token = $3::bigint AND NOT l.waiters
), i AS (
  INSERT INTO pgcoord.machine_waiters (machine, key, channel, deadline)
  SELECT $1::text, $2::text, $4::text, pg_catalog.clock_timestamp() + $5::bigint * interval '1 microsecond' FROM l
  ON CONFLICT (machine, key, channel) DO UPDATE SET deadline = excluded.deadline
)
SELECT count(*) FROM l`

// Asks to be told of new work.
const awaitWorkSQL = `
INSERT INTO pgcoord.machine_waiters (machine, key, channel, deadline)
VALUES ($1::text, '', $2::text, pg_catalog.clock_timestamp() + $3::bigint * interval '1 microsecond')
ON CONFLICT (machine, key, channel) DO UPDATE SET deadline = excluded.deadline`

// Asks no longer.
const leaveSQL = `
DELETE FROM pgcoord.machine_waiters WHERE machine = $1::text AND key = $2::text AND channel = $3::text`

// Deletes some attempts that ended long ago. Guard: the last attempt of a row that
// may be claimed again stays, with its number and its rest.
const pruneSQL = `
DELETE FROM pgcoord.attempts d USING (
  SELECT p.machine, p.key, p.token FROM pgcoord.attempts p
   WHERE p.machine = $1::text AND p.ended_at < pg_catalog.clock_timestamp() - $2::bigint * interval '1 microsecond'
     AND NOT EXISTS (SELECT FROM {table} o WHERE {o.parsed} AND o.{token} = p.token
                        AND o.{state} IN ($4::text::{type}, $5::text::{type}))
   LIMIT $3::int FOR UPDATE OF p SKIP LOCKED) l
 WHERE d.machine = l.machine AND d.key = l.key AND d.token = l.token`

// Deletes some recorded transitions of long ago.
const pruneTransitionsSQL = `
DELETE FROM pgcoord.transitions d USING (
  SELECT t.id FROM pgcoord.transitions t
   WHERE t.machine = $1::text AND t.at < pg_catalog.clock_timestamp() - $2::bigint * interval '1 microsecond'
   LIMIT $3::int FOR UPDATE SKIP LOCKED) l
 WHERE d.id = l.id`
