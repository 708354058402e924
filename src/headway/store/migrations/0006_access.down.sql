-- The role stays: other databases of this server may work under it.
DROP TABLE idempotency;
DROP TABLE login_tries;
DROP TABLE sessions;
DROP TABLE login_links;
DROP TABLE access_keys;
DROP POLICY everybody ON pauses;
DO $$
DECLARE
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY[
        'product_sync_schedule', 'listing_state', 'sync_audit_log', 'profiles',
        'connected_accounts', 'product', 'product_staging', 'boeing_raw_data', 'push_intent',
        'sync_jobs', 'orders', 'line_items', 'shipments', 'refunds', 'listings', 'customers',
        'payments', 'unreadable_records', 'oauth_visits', 'notices', 'pauses'
    ] LOOP
        EXECUTE format('DROP POLICY seller ON %I', each);
        EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY', each);
        EXECUTE format('REVOKE ALL ON %I FROM headway_seller', each);
    END LOOP;
    EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM headway_seller', current_schema());
END $$;
ALTER TABLE sync_audit_log DROP COLUMN actor;
