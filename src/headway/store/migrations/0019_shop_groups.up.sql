-- pre: old processes show a key one shop only, until they are replaced.
-- Shops of one owner: each is a seller of its own, and keys of the main one may act for the others.
ALTER TABLE profiles
    ADD COLUMN main_seller text REFERENCES profiles (user_id) ON DELETE SET NULL,
    ADD CONSTRAINT profiles_main_seller_other CHECK (main_seller <> user_id);
CREATE INDEX profiles_main_seller ON profiles (main_seller) WHERE main_seller IS NOT NULL;
COMMENT ON COLUMN profiles.main_seller IS
    'The seller whose keys and logins may act for this one too, because one owner has both shops; NULL if none.';
ALTER TABLE sessions ADD COLUMN acting_as text REFERENCES profiles (user_id) ON DELETE SET NULL;
COMMENT ON COLUMN sessions.acting_as IS 'The other shop of its group that the browser shows; NULL for the seller''s own.';
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
