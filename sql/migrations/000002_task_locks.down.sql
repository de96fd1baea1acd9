DROP VIEW pgcoord.held;
DROP FUNCTION pgcoord.pass_task(text, bigint, text, interval);
DROP TABLE pgcoord.task_waiters;
DROP TABLE pgcoord.task_locks;
