-- Refuses while an account on another platform is connected: older processes cannot read it.
DO $$
BEGIN
    IF EXISTS (SELECT FROM connected_accounts
               WHERE platform NOT IN ('shopify', 'etsy', 'printify') AND status = 'connected') THEN
        RAISE EXCEPTION 'there are accounts on other platforms; disconnect them first: headway disconnect --seller SELLER --platform NAME'
            USING ERRCODE = 'HW001';
    END IF;
END
$$;
DELETE FROM connected_accounts WHERE platform NOT IN ('shopify', 'etsy', 'printify');
ALTER TABLE connected_accounts
    DROP CONSTRAINT connected_accounts_platform_check,
    ADD CONSTRAINT connected_accounts_platform_check CHECK (platform IN ('shopify', 'etsy', 'printify'));
ALTER TABLE sync_jobs
    DROP CONSTRAINT sync_jobs_platform_check,
    ADD CONSTRAINT sync_jobs_platform_check CHECK (platform IN ('shopify', 'etsy', 'printify'));
