DROP VIEW pgcoord.held;
DROP FUNCTION pgcoord.pass_task(text, bigint, text, interval, boolean);
DROP FUNCTION pgcoord.complete_task(text, bigint, text, boolean);
DROP FUNCTION pgcoord.wake_waiters(text, int);
DROP TABLE pgcoord.task_waiters;
DROP TABLE pgcoord.task_locks;
