-- pre: older code reads all listings by the credential of its settings, and nobody has another yet.
-- Suppliers beside the one of the settings, which is `main`: each a credential of its own, with a
-- limit of its own. A seller buys from one of them; so do all listings of that seller. What they sign
-- in with lies encrypted in `credential`. A name stands for one credential for ever, so that no worker
-- can have another one in mind; what is removed stays as a name.
CREATE TABLE suppliers (
    name text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9-]{0,39}$' AND name <> 'main'),
    client_id text NOT NULL CHECK (client_id <> ''),
    username text NOT NULL CHECK (username <> ''),
    -- Where it answers, if not where the settings say.
    url text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    removed_at timestamptz
);
CREATE UNIQUE INDEX suppliers_client_id ON suppliers (client_id) WHERE removed_at IS NULL;
ALTER TABLE profiles ADD COLUMN supplier text NOT NULL DEFAULT 'main';
CREATE INDEX profiles_supplier ON profiles (supplier) WHERE supplier <> 'main';
ALTER TABLE product_sync_schedule ADD COLUMN supplier text NOT NULL DEFAULT 'main';

-- The claim looks at one supplier's queue; the market and the guard of its deadline at one supplier's
-- listings, the oldest first.
CREATE INDEX product_sync_schedule_front ON product_sync_schedule (supplier, priority, next_sync_at)
    WHERE is_active AND sync_status <> 'syncing' AND NOT is_paused;
CREATE INDEX product_sync_schedule_supplier
    ON product_sync_schedule (supplier, last_successful_sync)
    WHERE is_active AND sync_status <> 'syncing' AND NOT is_paused;

-- What is there already was held to the shorter list.
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
    'alert_fired', 'alert_resolved',
    'supplier_added', 'supplier_removed', 'supplier_chosen'
)) NOT VALID;
