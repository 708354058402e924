-- What a person has stopped. One pause for each thing; whoever pauses it again replaces the first.
CREATE TABLE pauses (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    kind text NOT NULL CHECK (kind IN ('all', 'supplier', 'seller', 'listing')),
    user_id text,
    sku text,
    -- A later one could be written but not read back, and every round reads what is paused.
    until timestamptz CHECK (until < '10000-01-01 00:00+00'),
    reason text NOT NULL DEFAULT '',
    actor text NOT NULL DEFAULT '',
    -- Whether it came from outside the seller's wall: then no seller may end or shorten it.
    is_imposed boolean NOT NULL
        DEFAULT (coalesce(current_setting('headway.seller', true), '') = ''),
    -- Somebody ended it before its time; it goes once its listings are unmarked.
    is_resumed boolean NOT NULL DEFAULT false,
    -- How far its listings are marked, and when all were.
    marked_to text NOT NULL DEFAULT '',
    marked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pauses_thing_unique UNIQUE NULLS NOT DISTINCT (kind, user_id, sku),
    CONSTRAINT pauses_thing CHECK (
        (user_id IS NOT NULL) = (kind IN ('seller', 'listing'))
        AND (sku IS NOT NULL) = (kind = 'listing')
    ),
    CONSTRAINT pauses_resumed CHECK (NOT is_resumed OR until IS NOT NULL)
);
CREATE INDEX pauses_unmarked ON pauses (user_id) WHERE marked_at IS NULL;

-- A mark, so that no claim wades through what is paused. The row in `pauses` is the truth.
ALTER TABLE product_sync_schedule ADD COLUMN is_paused boolean NOT NULL DEFAULT false;
CREATE INDEX product_sync_schedule_paused ON product_sync_schedule (user_id, sku) WHERE is_paused;
DROP INDEX product_sync_schedule_claim;
CREATE INDEX product_sync_schedule_claim ON product_sync_schedule (priority, next_sync_at)
    WHERE is_active AND sync_status <> 'syncing' AND NOT is_paused;
DROP INDEX product_sync_schedule_oldest;
CREATE INDEX product_sync_schedule_oldest
    ON product_sync_schedule (last_successful_sync NULLS FIRST) WHERE is_active AND NOT is_paused;
DROP INDEX product_sync_schedule_family;
CREATE INDEX product_sync_schedule_family ON product_sync_schedule (family, last_successful_sync)
    WHERE is_active AND family IS NOT NULL AND NOT is_paused;

-- The user_id of an event is '' where it is nobody's: everything was paused, or the supplier.
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
    'sync_paused', 'sync_resumed', 'sync_triggered'
));
CREATE INDEX sync_audit_log_pauses ON sync_audit_log (sync_timestamp)
    WHERE event_type IN ('sync_paused', 'sync_resumed');
