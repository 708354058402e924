-- Events of kinds that the older schema does not know are lost; export them first if they matter.
DELETE FROM sync_audit_log WHERE event_type IN (
    'change_approved', 'change_rejected', 'rolled_back', 'product_published', 'publish_blocked',
    'drift_found', 'ids_resolved'
);
ALTER TABLE sync_audit_log DROP CONSTRAINT sync_audit_log_event_type_check;
ALTER TABLE sync_audit_log ADD CONSTRAINT sync_audit_log_event_type_check CHECK (event_type IN (
    'sync_started', 'sync_completed', 'sync_failed', 'price_changed', 'quantity_changed',
    'stock_status_changed', 'shopify_updated', 'shopify_update_failed', 'product_deactivated',
    'dispatch_started', 'first_observed', 'cost_changed', 'change_held', 'sku_missing',
    'not_listed', 'lease_rescued', 'listing_revived'
));
DROP TABLE push_intent;
DROP INDEX listing_state_push;
DROP INDEX listing_state_held;
DROP INDEX listing_state_moved;
DROP INDEX listing_state_verified;
ALTER TABLE listing_state
    DROP COLUMN push_at,
    DROP COLUMN push_failures,
    DROP COLUMN push_error,
    DROP COLUMN proposed,
    DROP COLUMN rejected,
    DROP COLUMN moved_at,
    DROP COLUMN verified_at;
CREATE INDEX listing_state_unapplied ON listing_state (desired_at)
    WHERE desired_version > applied_version;
DROP TABLE boeing_raw_data;
DROP TABLE product_staging;
DROP TABLE product;
DROP TABLE connected_accounts;
DROP TABLE profiles;
