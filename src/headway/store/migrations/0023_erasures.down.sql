DROP TRIGGER refuse_erased_seller ON profiles;
DROP TRIGGER refuse_erased_seller ON connected_accounts;
DROP TRIGGER refuse_erased_seller ON product_sync_schedule;
DROP TRIGGER refuse_erased_seller ON product_staging;
DROP TRIGGER refuse_erased_seller ON access_keys;
DROP TRIGGER refuse_erased_shop ON connected_accounts;
DROP FUNCTION refuse_erased_seller;
DROP FUNCTION refuse_erased_shop;
DROP TABLE tombstones;
DROP TABLE erasures;
DROP TABLE privacy_requests;
DROP FUNCTION erased_hash;
DROP TABLE erasure_salt;
DELETE FROM sync_audit_log WHERE event_type IN (
    'data_erased', 'data_request_received', 'data_request_answered', 'records_expired');
ALTER DOMAIN audit_event_type DROP CONSTRAINT audit_event_type_check;
ALTER DOMAIN audit_event_type ADD CONSTRAINT audit_event_type_check CHECK (VALUE IN (
    -- reads of the supplier
    'sync_started', 'sync_completed', 'sync_failed', 'dispatch_started', 'first_observed',
    'price_changed', 'cost_changed', 'quantity_changed', 'stock_status_changed',
    'sku_missing', 'not_listed', 'lease_rescued', 'slot_moved',
    -- listings and their shop
    'shopify_updated', 'shopify_update_failed', 'product_deactivated', 'listing_revived', 'listing_removed',
    'change_held', 'change_approved', 'change_rejected', 'rolled_back', 'product_created',
    'product_published',
    'publish_blocked', 'drift_found', 'ids_resolved',
    -- account jobs
    'job_started', 'job_completed', 'job_yielded', 'job_rescheduled', 'job_failed', 'job_dead',
    'job_cancelled', 'job_rescued', 'job_revived', 'job_woken', 'plan_limit_reached',
    'plan_limit_lifted', 'account_connected', 'account_disconnected', 'account_renamed', 'token_refreshed',
    'removal_confirmed', 'removal_dismissed',
    -- people
    'sync_paused', 'sync_resumed', 'sync_triggered', 'tier_set', 'shop_started', 'key_created', 'key_revoked',
    'link_created', 'session_begun', 'session_ended',
    'supplier_added', 'supplier_removed', 'supplier_chosen', 'terms_set', 'part_imported', 'shop_grouped',
    -- monitoring
    'alert_fired', 'alert_resolved'
));
