-- pre: old processes read no job that is paused and forget return addresses: pause jobs and give links with them when all are replaced.
-- A seller may have several shops on a platform that is only read. Only the storefront is one per seller.
ALTER TABLE connected_accounts DROP CONSTRAINT connected_accounts_seller_unique;
CREATE UNIQUE INDEX connected_accounts_storefront ON connected_accounts (user_id) WHERE platform = 'shopify';
CREATE INDEX connected_accounts_seller ON connected_accounts (user_id, platform, shop);
COMMENT ON TABLE connected_accounts IS
    'Connections of sellers to platforms: one to the storefront, any number to the others. Tokens are in credential.';

-- Other programs set a status or a tier by SQL. A row that differs from what its jobs follow is found by the next tick.
ALTER TABLE connected_accounts ADD COLUMN jobs_status text;
UPDATE connected_accounts SET jobs_status = status;
CREATE INDEX connected_accounts_unfollowed ON connected_accounts (id) WHERE status IS DISTINCT FROM jobs_status;
COMMENT ON COLUMN connected_accounts.jobs_status IS
    'The status that its jobs follow. Leave it alone: the next tick makes the jobs follow a status that was set by SQL.';
ALTER TABLE profiles ADD COLUMN jobs_tier text;
UPDATE profiles SET jobs_tier = tier;
CREATE INDEX profiles_unfollowed ON profiles (user_id) WHERE tier IS DISTINCT FROM jobs_tier;
COMMENT ON COLUMN profiles.jobs_tier IS
    'The tier that the seller''s jobs follow. Leave it alone: the next tick makes the jobs follow a tier that was set by SQL.';

-- A person may pause the jobs of one account.
ALTER TABLE sync_jobs
    DROP CONSTRAINT sync_jobs_status_check,
    ADD CONSTRAINT sync_jobs_status_check CHECK (status IN (
        'queued', 'running', 'completed', 'plan_limit_reached', 'failed', 'dead', 'cancelled', 'paused')),
    DROP CONSTRAINT sync_jobs_waits,
    ADD CONSTRAINT sync_jobs_waits CHECK (CASE status
        WHEN 'queued' THEN next_run_at IS NOT NULL
        WHEN 'failed' THEN next_run_at IS NOT NULL
        WHEN 'plan_limit_reached' THEN next_run_at IS NOT NULL
        WHEN 'completed' THEN (next_run_at IS NULL) = (job_type = 'backfill')
        WHEN 'dead' THEN next_run_at IS NULL
        WHEN 'cancelled' THEN next_run_at IS NULL
        WHEN 'paused' THEN next_run_at IS NULL
        ELSE true END);

-- Where a person who connects a shop is sent afterwards.
ALTER TABLE oauth_flows
    ADD COLUMN return_url text NOT NULL DEFAULT '',
    ADD COLUMN return_state text NOT NULL DEFAULT '';
COMMENT ON COLUMN oauth_flows.return_url IS 'Address of the application that asked for the link; empty: Headway''s own page.';
COMMENT ON COLUMN oauth_flows.return_state IS 'The application''s own word, which it gets back.';
