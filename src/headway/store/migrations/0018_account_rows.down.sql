-- A seller keeps one shop on each platform: refused while there are more.
DO $$
BEGIN
    IF EXISTS (SELECT FROM connected_accounts GROUP BY user_id, platform HAVING count(*) > 1) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW001', MESSAGE =
            'a seller has several shops on one platform; delete all but one from connected_accounts first';
    END IF;
END $$;
ALTER TABLE oauth_flows DROP COLUMN return_url, DROP COLUMN return_state;
UPDATE sync_jobs SET status = 'queued', next_run_at = now() WHERE status = 'paused';
ALTER TABLE sync_jobs
    DROP CONSTRAINT sync_jobs_status_check,
    ADD CONSTRAINT sync_jobs_status_check CHECK (status IN (
        'queued', 'running', 'completed', 'plan_limit_reached', 'failed', 'dead', 'cancelled')),
    DROP CONSTRAINT sync_jobs_waits,
    ADD CONSTRAINT sync_jobs_waits CHECK (CASE status
        WHEN 'queued' THEN next_run_at IS NOT NULL
        WHEN 'failed' THEN next_run_at IS NOT NULL
        WHEN 'plan_limit_reached' THEN next_run_at IS NOT NULL
        WHEN 'completed' THEN (next_run_at IS NULL) = (job_type = 'backfill')
        WHEN 'dead' THEN next_run_at IS NULL
        WHEN 'cancelled' THEN next_run_at IS NULL
        ELSE true END);
ALTER TABLE profiles DROP COLUMN jobs_tier;
ALTER TABLE connected_accounts DROP COLUMN jobs_status;
DROP INDEX connected_accounts_seller, connected_accounts_storefront;
ALTER TABLE connected_accounts ADD CONSTRAINT connected_accounts_seller_unique UNIQUE (user_id, platform);
COMMENT ON TABLE connected_accounts IS
    'Connections of sellers to platforms, at most one per seller and platform. Tokens are in credential.';
