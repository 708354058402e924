-- All months in one table again.
CREATE TABLE sync_audit_log_whole (LIKE sync_audit_log INCLUDING ALL EXCLUDING INDEXES);
INSERT INTO sync_audit_log_whole SELECT * FROM sync_audit_log;
DO $$
DECLARE
    each record;
BEGIN
    FOR each IN
        SELECT DISTINCT privilege_type AS may, coalesce(rolname, 'public') AS who
        FROM pg_class, aclexplode(relacl) LEFT JOIN pg_roles ON pg_roles.oid = grantee
        WHERE pg_class.oid = 'sync_audit_log'::regclass AND grantee <> relowner
    LOOP
        EXECUTE format('GRANT %s ON sync_audit_log_whole TO %I', each.may, each.who);
    END LOOP;
END $$;
DROP VIEW history_months;
DROP FUNCTION make_history_month;
DROP TABLE sync_audit_log;
ALTER TABLE sync_audit_log_whole RENAME TO sync_audit_log;
ALTER TABLE sync_audit_log ADD PRIMARY KEY (id);
CREATE INDEX sync_audit_log_time ON sync_audit_log (user_id, sync_timestamp DESC);
CREATE INDEX sync_audit_log_sku ON sync_audit_log (sku, sync_timestamp DESC);
CREATE INDEX sync_audit_log_recent ON sync_audit_log (sync_timestamp DESC);
CREATE INDEX sync_audit_log_job ON sync_audit_log (job_id, sync_timestamp DESC)
    WHERE job_id IS NOT NULL;
CREATE INDEX sync_audit_log_pauses ON sync_audit_log (sync_timestamp)
    WHERE event_type IN ('sync_paused', 'sync_resumed');
ALTER TABLE sync_audit_log ENABLE ROW LEVEL SECURITY;
CREATE POLICY seller ON sync_audit_log TO headway_seller
    USING (user_id = (SELECT current_setting('headway.seller', true)))
    WITH CHECK (user_id = (SELECT current_setting('headway.seller', true)));
