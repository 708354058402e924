CREATE INDEX product_sync_schedule_claim ON product_sync_schedule (priority, next_sync_at)
    WHERE is_active AND sync_status <> 'syncing' AND NOT is_paused;
