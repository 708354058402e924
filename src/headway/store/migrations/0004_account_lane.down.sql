-- Events of the account lane are lost; export them first if they matter.
DELETE FROM sync_audit_log WHERE sku IS NULL;
DROP INDEX sync_audit_log_job;
ALTER TABLE sync_audit_log DROP COLUMN job_id;
ALTER TABLE sync_audit_log ALTER COLUMN sku SET NOT NULL;
ALTER TABLE sync_audit_log DROP CONSTRAINT sync_audit_log_event_type_check;
ALTER TABLE sync_audit_log ADD CONSTRAINT sync_audit_log_event_type_check CHECK (event_type IN (
    'sync_started', 'sync_completed', 'sync_failed', 'price_changed', 'quantity_changed',
    'stock_status_changed', 'shopify_updated', 'shopify_update_failed', 'product_deactivated',
    'dispatch_started', 'first_observed', 'cost_changed', 'change_held', 'sku_missing',
    'not_listed', 'lease_rescued', 'listing_revived',
    'change_approved', 'change_rejected', 'rolled_back', 'product_published', 'publish_blocked',
    'drift_found', 'ids_resolved', 'slot_moved'
));
DROP TABLE notices, oauth_visits, webhook_deliveries, unreadable_records, payments, customers,
    listings, refunds, shipments, line_items, orders, rate_budgets, sync_jobs;
DROP INDEX connected_accounts_lost;
DELETE FROM connected_accounts WHERE platform <> 'shopify';
ALTER TABLE connected_accounts
    DROP COLUMN owner_id, DROP COLUMN title, DROP COLUMN horizon_at;
ALTER TABLE profiles DROP COLUMN tier, DROP COLUMN orders_month, DROP COLUMN orders_count;
