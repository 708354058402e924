DROP INDEX product_sync_schedule_oldest;
CREATE INDEX product_sync_schedule_oldest
    ON product_sync_schedule (last_successful_sync NULLS FIRST) WHERE is_active AND NOT is_paused;
CREATE INDEX product_sync_schedule_plain
    ON product_sync_schedule (last_successful_sync, user_id, sku)
    WHERE is_active AND sync_status <> 'syncing' AND consecutive_failures = 0 AND NOT is_paused;
