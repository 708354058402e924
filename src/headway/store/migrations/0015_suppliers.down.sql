-- Whoever is read by a credential of its own must choose `main` first: the others are forgotten.
DO $$
BEGIN
    IF EXISTS (SELECT FROM product_sync_schedule WHERE supplier <> 'main') THEN
        RAISE EXCEPTION USING ERRCODE = 'HW001', MESSAGE =
            'listings are read of other suppliers than main; give their sellers to main first:'
            ' headway supplier give main --seller SELLER';
    END IF;
END $$;
DELETE FROM sync_audit_log
    WHERE event_type IN ('supplier_added', 'supplier_removed', 'supplier_chosen');
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
    'plan_limit_lifted', 'account_connected', 'account_disconnected', 'token_refreshed',
    'sync_paused', 'sync_resumed', 'sync_triggered',
    'key_created', 'key_revoked', 'link_created', 'session_begun', 'session_ended', 'tier_set',
    'alert_fired', 'alert_resolved'
));
DELETE FROM credential WHERE scope LIKE 'supplier:%';
ALTER TABLE product_sync_schedule DROP COLUMN supplier;
ALTER TABLE profiles DROP COLUMN supplier;
DROP TABLE suppliers;
