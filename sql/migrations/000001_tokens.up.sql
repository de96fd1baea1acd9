-- Fencing tokens, and the record of applied operations.

-- IF NOT EXISTS would ask for CREATE on the database even where an administrator
-- has made the schema for the role.
DO $$
BEGIN
    IF to_regnamespace('pgcoord') IS NULL THEN
        CREATE SCHEMA pgcoord;
        COMMENT ON SCHEMA pgcoord IS 'Exclusion for services: claims, fencing tokens, operations. Owned by pgcoord migrations.';
    END IF;
END
$$;

-- The low 40 bits of a token. CACHE 1 and NO CYCLE are what makes numbers grow
-- over all sessions; the library refuses to grant under any other setting.
CREATE SEQUENCE pgcoord.fencing_token_seq
    AS bigint MINVALUE 1 MAXVALUE 1099511627775 START 1 INCREMENT 1 CACHE 1 NO CYCLE;

-- One row. A restore into a new cluster raises epoch, because the timeline
-- starts at 1 again there.
CREATE TABLE pgcoord.cluster (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch    bigint  NOT NULL DEFAULT 0 CHECK (epoch BETWEEN 0 AND 4096)
);
INSERT INTO pgcoord.cluster DEFAULT VALUES;

-- (epoch + timeline) * 2^40 + sequence. The number alone is no token: it becomes
-- one when the transaction that drew it has written it under the lock of the
-- claim's row and has committed.
CREATE FUNCTION pgcoord.next_fencing_token() RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    high bigint;
BEGIN
    SELECT c.epoch + ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
      INTO STRICT high FROM pgcoord.cluster c;
    RETURN high * 1099511627776 + nextval('pgcoord.fencing_token_seq'::regclass);
END
$$;

-- Which operations were applied, by the id that the caller gave them. A row is
-- written by the transaction that applies the operation, or by whoever gives
-- the operation up.
CREATE TABLE pgcoord.operations (
    domain       text COLLATE "C" NOT NULL CHECK (domain <> ''),
    key          text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 512),
    operation_id text COLLATE "C" NOT NULL CHECK (octet_length(operation_id) BETWEEN 1 AND 128),
    token        bigint           NOT NULL CHECK (token >= 0),
    applied      boolean          NOT NULL,
    decided_at   timestamptz      NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (domain, key, operation_id)
);
COMMENT ON COLUMN pgcoord.operations.domain IS 'what the keys name, for instance task_locks';
COMMENT ON COLUMN pgcoord.operations.applied IS 'false: withdrawn, never to be applied';

-- Ends in an error unless the current transaction is the one it is told: sent
-- together with COMMIT, it keeps a transaction that user code has ended and
-- begun again from committing without its guard.
CREATE FUNCTION pgcoord.require_transaction(xact text) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF pg_current_xact_id_if_assigned()::text IS DISTINCT FROM xact THEN
        RAISE EXCEPTION 'the guarded transaction was ended by the function that ran in it'
            USING ERRCODE = 'PGC02';
    END IF;
END
$$;
