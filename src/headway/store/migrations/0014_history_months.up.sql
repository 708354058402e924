-- pre: older code reads and writes the history by the same name and columns.
-- The history by months, so that old ones can be dropped whole. What was written before stays one
-- table, now the partition of all that lies before the first month.

-- Make the partition of the month of an instant, unless one covers it; tell whether it was made.
-- What strayed into the partition of the others, because nobody made the month in time, moves over.
CREATE FUNCTION make_history_month(instant timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    month timestamp := date_trunc('month', instant AT TIME ZONE 'UTC');
    from_at timestamptz := month AT TIME ZONE 'UTC';
    to_at timestamptz := (month + interval '1 month') AT TIME ZONE 'UTC';
    name text := 'sync_audit_log_' || to_char(month, 'YYYY_MM');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('headway history months', 0));
    IF to_regclass(name) IS NOT NULL OR EXISTS (
        SELECT FROM history_months WHERE since IS NULL AND until > from_at
    ) THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE sync_audit_log INCLUDING ALL)', name);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format(
        'CREATE POLICY seller ON %I TO headway_seller'
        ' USING (user_id = (SELECT current_setting(''headway.seller'', true)))'
        ' WITH CHECK (user_id = (SELECT current_setting(''headway.seller'', true)))', name);
    LOCK TABLE sync_audit_log_other IN ACCESS EXCLUSIVE MODE;
    EXECUTE format(
        'WITH strays AS (DELETE FROM sync_audit_log_other'
        ' WHERE sync_timestamp >= %L AND sync_timestamp < %L RETURNING *)'
        ' INSERT INTO %I SELECT * FROM strays', from_at, to_at, name);
    EXECUTE format('ALTER TABLE sync_audit_log ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
        name, from_at, to_at);
    RETURN true;
END $$;

ALTER TABLE sync_audit_log RENAME TO sync_audit_log_before;
ALTER INDEX sync_audit_log_pkey RENAME TO sync_audit_log_before_pkey;
ALTER INDEX sync_audit_log_time RENAME TO sync_audit_log_before_time;
ALTER INDEX sync_audit_log_sku RENAME TO sync_audit_log_before_sku;
ALTER INDEX sync_audit_log_recent RENAME TO sync_audit_log_before_recent;
ALTER INDEX sync_audit_log_job RENAME TO sync_audit_log_before_job;
ALTER INDEX sync_audit_log_pauses RENAME TO sync_audit_log_before_pauses;

CREATE TABLE sync_audit_log (LIKE sync_audit_log_before INCLUDING ALL EXCLUDING INDEXES)
    PARTITION BY RANGE (sync_timestamp);
ALTER TABLE sync_audit_log ADD PRIMARY KEY (id, sync_timestamp);
CREATE INDEX sync_audit_log_time ON sync_audit_log (user_id, sync_timestamp DESC);
CREATE INDEX sync_audit_log_sku ON sync_audit_log (sku, sync_timestamp DESC);
CREATE INDEX sync_audit_log_recent ON sync_audit_log (sync_timestamp DESC);
CREATE INDEX sync_audit_log_job ON sync_audit_log (job_id, sync_timestamp DESC)
    WHERE job_id IS NOT NULL;
CREATE INDEX sync_audit_log_pauses ON sync_audit_log (sync_timestamp)
    WHERE event_type IN ('sync_paused', 'sync_resumed');

-- The parts that have an end, with their bounds; `since` is NULL where there is no first instant.
CREATE VIEW history_months AS
SELECT part.relname::text AS name,
    substring(bound FROM 'FROM \(''([^'']*)''\)')::timestamptz AS since,
    substring(bound FROM 'TO \(''([^'']*)''\)')::timestamptz AS until
FROM pg_inherits
JOIN pg_class AS part ON part.oid = inhrelid
CROSS JOIN LATERAL pg_get_expr(part.relpartbound, part.oid) AS bound
WHERE inhparent = 'sync_audit_log'::regclass AND bound <> 'DEFAULT';

-- Whatever belongs to no month that was made: an event is never refused for its date.
CREATE TABLE sync_audit_log_other PARTITION OF sync_audit_log DEFAULT;

DO $$
DECLARE
    each record;
BEGIN
    FOR each IN SELECT unnest(ARRAY['sync_audit_log', 'sync_audit_log_other']) AS name LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', each.name);
        EXECUTE format(
            'CREATE POLICY seller ON %I TO headway_seller'
            ' USING (user_id = (SELECT current_setting(''headway.seller'', true)))'
            ' WITH CHECK (user_id = (SELECT current_setting(''headway.seller'', true)))',
            each.name);
    END LOOP;
    -- Whoever was let in is let in at the whole, and no longer at the part.
    FOR each IN
        SELECT DISTINCT privilege_type AS may, coalesce(rolname, 'public') AS who
        FROM pg_class, aclexplode(relacl) LEFT JOIN pg_roles ON pg_roles.oid = grantee
        WHERE pg_class.oid = 'sync_audit_log_before'::regclass AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT %s ON sync_audit_log TO %I', each.may, each.who);
        EXECUTE format('REVOKE %s ON sync_audit_log_before FROM %I', each.may, each.who);
    END LOOP;
    SELECT max(sync_timestamp) AS at INTO each FROM sync_audit_log_before;
    IF each.at IS NULL THEN
        DROP TABLE sync_audit_log_before;
    ELSE
        ALTER TABLE sync_audit_log_before DROP CONSTRAINT sync_audit_log_before_pkey;
        EXECUTE format(
            'ALTER TABLE sync_audit_log ATTACH PARTITION sync_audit_log_before'
            ' FOR VALUES FROM (MINVALUE) TO (%L)',
            (date_trunc('month', greatest(each.at, now()) AT TIME ZONE 'UTC') + interval '1 month')
                AT TIME ZONE 'UTC');
    END IF;
    PERFORM make_history_month(now());
    PERFORM make_history_month(now() + interval '1 month');
END $$;
