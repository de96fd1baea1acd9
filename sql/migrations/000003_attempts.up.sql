-- The claims of statemachine: one row per claim, kept as the history of attempts.
-- The claim's token stands in the application's row as well; the lease only here,
-- so that a renewal touches no row, trigger or index of the application.

CREATE TABLE pgcoord.attempts (
    machine    text        COLLATE "C" NOT NULL CHECK (octet_length(machine) BETWEEN 1 AND 128),
    key        text        COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 512),
    token      bigint      NOT NULL CHECK (token > 0),
    claim_id   text        COLLATE "C" NOT NULL CHECK (octet_length(claim_id) BETWEEN 1 AND 160),
    holder     text        NOT NULL CHECK (octet_length(holder) <= 512),
    channel    text        NOT NULL DEFAULT '' CHECK (octet_length(channel) <= 63),
    attempt    integer     NOT NULL CHECK (attempt > 0),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz,
    outcome    text        CHECK (outcome IN ('done', 'failed', 'retry', 'released', 'lease expired', 'superseded')),
    retry_at   timestamptz,
    waiters    boolean     NOT NULL DEFAULT false,
    result     jsonb,
    error      text,
    PRIMARY KEY (machine, key, token),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

COMMENT ON COLUMN pgcoord.attempts.outcome IS 'NULL while the attempt is under way';
COMMENT ON COLUMN pgcoord.attempts.retry_at IS 'the row is not claimed again before';
COMMENT ON COLUMN pgcoord.attempts.waiters IS 'a process waits for the key: the end of the attempt must tell it';

-- The attempts under way, for the reaper. Renewals change neither the column nor
-- the predicate, so they stay heap-only.
CREATE INDEX attempts_open ON pgcoord.attempts (machine) WHERE ended_at IS NULL;

-- Transitions that asked to be recorded, written by the statement that made them.
CREATE TABLE pgcoord.transitions (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine    text        COLLATE "C" NOT NULL CHECK (octet_length(machine) BETWEEN 1 AND 128),
    key        text        COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 512),
    from_state text        NOT NULL,
    to_state   text        NOT NULL,
    token      bigint,
    metadata   jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX transitions_key ON pgcoord.transitions (machine, key, id);

-- Who waits for a row or, with an empty key, for work of a machine.
CREATE UNLOGGED TABLE pgcoord.machine_waiters (
    machine  text        COLLATE "C" NOT NULL CHECK (octet_length(machine) BETWEEN 1 AND 128),
    key      text        COLLATE "C" NOT NULL CHECK (octet_length(key) <= 512),
    channel  text        COLLATE "C" NOT NULL CHECK (octet_length(channel) BETWEEN 1 AND 63),
    position bigint      GENERATED ALWAYS AS IDENTITY,
    deadline timestamptz NOT NULL,
    PRIMARY KEY (machine, key, channel)
) WITH (fillfactor = 70);

-- Tells the first p_most living waiters, or all, to look.
CREATE FUNCTION pgcoord.wake_machine(p_machine text, p_key text, p_most int) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_notify(w.channel, 'look ' || p_key)
       FROM (SELECT f.channel FROM pgcoord.machine_waiters f
              WHERE f.machine = p_machine AND f.key = p_key AND f.deadline > clock_timestamp()
              ORDER BY f.position LIMIT p_most) w;
END
$$;

-- Raises PGC01 unless exactly one row was changed, so that a COMMIT sent behind it
-- does not run.
CREATE FUNCTION pgcoord.require_one(p_rows bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_rows IS DISTINCT FROM 1 THEN
        RAISE EXCEPTION 'the claim is not current' USING ERRCODE = 'PGC01', DETAIL = p_rows || ' rows';
    END IF;
    RETURN p_rows;
END
$$;

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
 WHERE t.held AND t.expires_at > clock_timestamp()
UNION ALL
SELECT ('statemachine ' || a.machine) COLLATE "default",
       a.key,
       a.token,
       a.holder,
       a.started_at,
       a.expires_at,
       clock_timestamp() - a.started_at,
       a.expires_at - clock_timestamp(),
       jsonb_build_object('attempt', a.attempt),
       (SELECT count(*) FROM pgcoord.machine_waiters w
         WHERE w.machine = a.machine AND w.key = a.key AND w.deadline > clock_timestamp())
  FROM pgcoord.attempts a
 WHERE a.ended_at IS NULL AND a.expires_at > clock_timestamp();
