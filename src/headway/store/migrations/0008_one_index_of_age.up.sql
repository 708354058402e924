-- Every read moves a row in each of its indexes. The guard of the deadline and the lists of fresh and
-- stale listings ask for the same order: one index serves both, and like the claim's it leaves out
-- what is being read, so that a claim adds nothing to it.
DROP INDEX product_sync_schedule_plain, product_sync_schedule_oldest;
CREATE INDEX product_sync_schedule_oldest
    ON product_sync_schedule (last_successful_sync, user_id, sku)
    WHERE is_active AND sync_status <> 'syncing' AND NOT is_paused;
