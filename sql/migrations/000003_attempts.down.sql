CREATE OR REPLACE VIEW pgcoord.held AS
SELECT 'uniquelock'::text AS strategy,
       t.task_name AS key,
       t.token,
       t.holder,
       t.locked_at AS since,
       t.expires_at AS until,
       clock_timestamp() - t.locked_at AS age,
       t.expires_at - clock_timestamp() AS remaining,
       t.metadata,
       (SELECT count(*) FROM pgcoord.task_waiters w
         WHERE w.task_name = t.task_name AND w.deadline > clock_timestamp()) AS waiters
  FROM pgcoord.task_locks t
 WHERE t.held AND t.expires_at > clock_timestamp();
DROP FUNCTION pgcoord.require_one(bigint);
DROP FUNCTION pgcoord.wake_machine(text, text, int);
DROP TABLE pgcoord.machine_waiters;
DROP TABLE pgcoord.transitions;
DROP TABLE pgcoord.attempts;
