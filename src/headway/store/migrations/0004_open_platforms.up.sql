-- pre: old processes write only names that match this too, and claim no job of another platform.
-- Any registered provider may be a platform: the product refuses unknown names, the tables odd ones.
ALTER TABLE connected_accounts
    DROP CONSTRAINT connected_accounts_platform_check,
    ADD CONSTRAINT connected_accounts_platform_check CHECK (platform ~ '^[a-z][a-z0-9_-]{0,30}$');
ALTER TABLE sync_jobs
    DROP CONSTRAINT sync_jobs_platform_check,
    ADD CONSTRAINT sync_jobs_platform_check CHECK (platform ~ '^[a-z][a-z0-9_-]{0,30}$');
