-- The claims of uniquelock: one row per key, never deleted on release.

-- No index on anything that a grant, renewal or release changes, and room on
-- each page: all three are heap-only updates.
CREATE TABLE pgcoord.task_locks (
    task_name  text COLLATE "C" PRIMARY KEY CHECK (octet_length(task_name) BETWEEN 1 AND 512),
    token      bigint      NOT NULL DEFAULT 0 CHECK (token >= 0),
    claim_id   text        NOT NULL DEFAULT '' COLLATE "C" CHECK (octet_length(claim_id) <= 160),
    holder     text        NOT NULL DEFAULT '' CHECK (octet_length(holder) <= 512),
    channel    text        NOT NULL DEFAULT '' CHECK (octet_length(channel) <= 63),
    held       boolean     NOT NULL DEFAULT false,
    waiters    boolean     NOT NULL DEFAULT false,
    locked_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    hold_until timestamptz NOT NULL DEFAULT '-infinity',
    ended_at   timestamptz,
    done_token bigint      NOT NULL DEFAULT 0 CHECK (done_token BETWEEN 0 AND token),
    done_at    timestamptz,
    metadata   jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    note       text        NOT NULL DEFAULT '',
    CHECK (NOT held OR token > 0),
    CHECK (NOT (held AND done_at IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

COMMENT ON COLUMN pgcoord.task_locks.token IS 'fencing token of the newest claim; 0: never granted';
COMMENT ON COLUMN pgcoord.task_locks.claim_id IS 'identity of the newest claim, beside its token';
COMMENT ON COLUMN pgcoord.task_locks.channel IS 'notification channel of the process that holds it';
COMMENT ON COLUMN pgcoord.task_locks.held IS 'the claim has neither been completed, released nor broken';
COMMENT ON COLUMN pgcoord.task_locks.waiters IS 'another process may be waiting: a release must look';
COMMENT ON COLUMN pgcoord.task_locks.expires_at IS 'nobody else may claim the key before; on the clock of this database';
COMMENT ON COLUMN pgcoord.task_locks.hold_until IS 'minimum hold: the key stays taken until then, even when released';
COMMENT ON COLUMN pgcoord.task_locks.done_token IS 'token of the last claim that was completed';
COMMENT ON COLUMN pgcoord.task_locks.done_at IS 'set: the work is done for good and never granted again';
COMMENT ON COLUMN pgcoord.task_locks.note IS 'why the claim was broken';

-- Who waits in other processes: one place per process and key. UNLOGGED: a
-- crash empties it, and each waiter puts itself back at its next look.
CREATE UNLOGGED TABLE pgcoord.task_waiters (
    task_name text        COLLATE "C" NOT NULL CHECK (octet_length(task_name) BETWEEN 1 AND 512),
    slot_id   text        COLLATE "C" NOT NULL CHECK (octet_length(slot_id) BETWEEN 1 AND 160),
    position  bigint      GENERATED ALWAYS AS IDENTITY,
    channel   text        NOT NULL CHECK (octet_length(channel) BETWEEN 1 AND 63),
    holder    text        NOT NULL CHECK (octet_length(holder) <= 512),
    since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    deadline  timestamptz NOT NULL,
    PRIMARY KEY (task_name, slot_id)
) WITH (fillfactor = 70);

COMMENT ON COLUMN pgcoord.task_waiters.slot_id IS 'the claim id under which the place is granted';
COMMENT ON COLUMN pgcoord.task_waiters.deadline IS 'the place is dead after this';

-- Tells the first p_most living places of p_task, or all, to look at the key.
CREATE FUNCTION pgcoord.wake_waiters(p_task text, p_most int) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify(w.channel, 'look ' || w.slot_id)
       FROM (SELECT f.channel, f.slot_id FROM pgcoord.task_waiters f
              WHERE f.task_name = p_task AND f.deadline > clock_timestamp()
              ORDER BY f.position LIMIT p_most) w;
END
$$;

-- Ends the claim (p_task, p_token, p_claim) as completed; with p_once the key is
-- done for good. Raises PGC01 when that claim is not the current one, so that a
-- COMMIT sent behind it does not run.
CREATE FUNCTION pgcoord.complete_task(p_task text, p_token bigint, p_claim text, p_once boolean) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    -- Until the end of the transaction, which follows at once.
    PERFORM set_config('lock_timeout', '5s', true);
    -- FOR UPDATE waits for guarded transactions of this claim that are still open,
    -- as one may be whose outcome is unknown: nothing of the claim commits later.
    PERFORM FROM pgcoord.task_locks t
      WHERE t.task_name = p_task AND t.token = p_token AND t.claim_id = p_claim AND t.held FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim is not current' USING ERRCODE = 'PGC01';
    END IF;
    UPDATE pgcoord.task_locks t
       SET held = false, ended_at = clock_timestamp(), done_token = t.token,
           done_at = CASE WHEN p_once THEN clock_timestamp() END,
           expires_at = CASE WHEN t.hold_until > clock_timestamp() THEN t.hold_until ELSE '-infinity' END
     WHERE t.task_name = p_task;
    PERFORM pgcoord.wake_waiters(p_task, CASE WHEN NOT p_once THEN 1 END); -- all, where nothing is left to get
    RETURN true;
END
$$;

-- Ends the claim (p_task, p_token, p_claim) and gives the key to the first
-- living place in task_waiters, else frees it. Returns the outcome: 'gone',
-- when that claim is not the current one; 'freed'; 'handed', with a notification
-- to the process that has it now. With p_done the claim ends as completed.
--
-- One function, because each statement of it must see what was committed before
-- the lock of the row was won: a place that was taken while this waited counts.
CREATE FUNCTION pgcoord.pass_task(p_task text, p_token bigint, p_claim text, p_first_lease interval,
    p_done boolean) RETURNS text
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    l        record;
    n        record;
    at_front boolean;
    more     boolean;
BEGIN
    -- A grant is durable before anybody learns of it, and so is a completion.
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    -- FOR UPDATE: an open guarded transaction of the old claim (FOR KEY SHARE) is
    -- never walked past. It is skipped, not waited for; the key is freed instead.
    SELECT t.hold_until INTO l FROM pgcoord.task_locks t
     WHERE t.task_name = p_task AND t.token = p_token AND t.claim_id = p_claim AND t.held
       FOR UPDATE SKIP LOCKED;
    IF FOUND AND l.hold_until <= clock_timestamp() THEN
        DELETE FROM pgcoord.task_waiters w WHERE w.task_name = p_task AND w.deadline <= clock_timestamp();
        DELETE FROM pgcoord.task_waiters w
         WHERE w.task_name = p_task
           AND w.slot_id = (SELECT f.slot_id FROM pgcoord.task_waiters f
                             WHERE f.task_name = p_task ORDER BY f.position LIMIT 1
                               FOR UPDATE SKIP LOCKED) -- one that is just leaving
        RETURNING w.slot_id, w.channel, w.holder INTO n;
        at_front := FOUND;
        more := EXISTS (SELECT FROM pgcoord.task_waiters w WHERE w.task_name = p_task);
        IF at_front THEN
            UPDATE pgcoord.task_locks t
               SET token = greatest(t.token + 1, pgcoord.next_fencing_token()),
                   done_token = CASE WHEN p_done THEN t.token ELSE t.done_token END,
                   claim_id = n.slot_id, holder = n.holder, channel = n.channel, waiters = more,
                   locked_at = clock_timestamp(), expires_at = clock_timestamp() + p_first_lease,
                   hold_until = '-infinity', ended_at = NULL, metadata = '{}', note = ''
             WHERE t.task_name = p_task;
            PERFORM pg_notify(n.channel, 'granted ' || n.slot_id);
            RETURN 'handed';
        END IF;
        UPDATE pgcoord.task_locks t
           SET held = false, waiters = more, expires_at = '-infinity', ended_at = clock_timestamp(),
               done_token = CASE WHEN p_done THEN t.token ELSE t.done_token END
         WHERE t.task_name = p_task;
        RETURN 'freed';
    END IF;
    IF p_done THEN
        PERFORM pgcoord.complete_task(p_task, p_token, p_claim, false);
        RETURN 'freed';
    END IF;
    UPDATE pgcoord.task_locks t
       SET held = false, expires_at = CASE WHEN t.hold_until > clock_timestamp() THEN t.hold_until ELSE '-infinity' END,
           ended_at = clock_timestamp()
     WHERE t.task_name = p_task AND t.token = p_token AND t.claim_id = p_claim AND t.held;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    PERFORM pgcoord.wake_waiters(p_task, 1);
    RETURN 'freed';
END
$$;

-- Who holds what, for plain SQL.
CREATE VIEW pgcoord.held AS
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
COMMENT ON VIEW pgcoord.held IS 'current claims whose lease has not ended';
