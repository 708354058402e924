-- Pauses end with their table, and their events are lost; export them first if they matter.
DROP INDEX sync_audit_log_pauses;
DELETE FROM sync_audit_log WHERE event_type IN ('sync_paused', 'sync_resumed', 'sync_triggered');
ALTER TABLE sync_audit_log DROP CONSTRAINT sync_audit_log_event_type_check;
ALTER TABLE sync_audit_log ADD CONSTRAINT sync_audit_log_event_type_check CHECK (event_type IN (
    'sync_started', 'sync_completed', 'sync_failed', 'price_changed', 'quantity_changed',
    'stock_status_changed', 'shopify_updated', 'shopify_update_failed', 'product_deactivated',
    'dispatch_started', 'first_observed', 'cost_changed', 'change_held', 'sku_missing',
    'not_listed', 'lease_rescued', 'listing_revived',
    'change_approved', 'change_rejected', 'rolled_back', 'product_published', 'publish_blocked',
    'drift_found', 'ids_resolved', 'slot_moved',
    'job_started', 'job_completed', 'job_yielded', 'job_rescheduled', 'job_failed', 'job_dead',
    'job_cancelled', 'job_rescued', 'job_revived', 'job_woken', 'plan_limit_reached',
    'plan_limit_lifted', 'account_connected', 'account_disconnected', 'token_refreshed'
));
DROP INDEX product_sync_schedule_claim;
DROP INDEX product_sync_schedule_oldest;
DROP INDEX product_sync_schedule_family;
ALTER TABLE product_sync_schedule DROP COLUMN is_paused;
CREATE INDEX product_sync_schedule_claim ON product_sync_schedule (priority, next_sync_at)
    WHERE is_active AND sync_status <> 'syncing';
CREATE INDEX product_sync_schedule_oldest
    ON product_sync_schedule (last_successful_sync NULLS FIRST) WHERE is_active;
CREATE INDEX product_sync_schedule_family ON product_sync_schedule (family, last_successful_sync)
    WHERE is_active AND family IS NOT NULL;
DROP TABLE pauses;
