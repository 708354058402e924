-- Events of kinds that the older schema does not know are lost; export them first if they matter.
DELETE FROM sync_audit_log WHERE event_type = 'slot_moved';
ALTER TABLE sync_audit_log DROP CONSTRAINT sync_audit_log_event_type_check;
ALTER TABLE sync_audit_log ADD CONSTRAINT sync_audit_log_event_type_check CHECK (event_type IN (
    'sync_started', 'sync_completed', 'sync_failed', 'price_changed', 'quantity_changed',
    'stock_status_changed', 'shopify_updated', 'shopify_update_failed', 'product_deactivated',
    'dispatch_started', 'first_observed', 'cost_changed', 'change_held', 'sku_missing',
    'not_listed', 'lease_rescued', 'listing_revived',
    'change_approved', 'change_rejected', 'rolled_back', 'product_published', 'publish_blocked',
    'drift_found', 'ids_resolved'
));
DROP INDEX product_sync_schedule_oldest;
DROP TABLE timetable, family, market;
ALTER TABLE product_sync_schedule
    DROP COLUMN retried_at, DROP COLUMN changes_seen, DROP COLUMN watched_days,
    DROP COLUMN changed_at, DROP COLUMN value_weight, DROP COLUMN family, DROP COLUMN swept_from;
