-- The timetable: what policies know of a listing, of families that change together, of the market.

ALTER TABLE product_sync_schedule
    -- When it last boarded as a retry: a window's cap counts these.
    ADD COLUMN retried_at timestamptz,
    -- How often it changes, as far as reads have told; older news counts less.
    ADD COLUMN changes_seen double precision NOT NULL DEFAULT 0 CHECK (changes_seen >= 0),
    ADD COLUMN watched_days double precision NOT NULL DEFAULT 0 CHECK (watched_days >= 0),
    ADD COLUMN changed_at timestamptz,
    -- What a minute of staleness costs here, compared with other listings.
    ADD COLUMN value_weight double precision NOT NULL DEFAULT 1
        CHECK (value_weight > 0 AND value_weight <= 1000000),
    -- Whom it may change with: as imported, else who makes it as the supplier says.
    ADD COLUMN family text,
    -- The due time it had of its own before its family was swept.
    ADD COLUMN swept_from timestamptz;
CREATE INDEX product_sync_schedule_retried ON product_sync_schedule (retried_at)
    WHERE retried_at IS NOT NULL;
-- The guard of the deadline asks who was read longest ago, a sweep asks so within a family.
CREATE INDEX product_sync_schedule_oldest
    ON product_sync_schedule (last_successful_sync NULLS FIRST) WHERE is_active;
CREATE INDEX product_sync_schedule_family ON product_sync_schedule (family, last_successful_sync)
    WHERE is_active AND family IS NOT NULL;

-- One row per supplier whose seats have a price. Steps are added, never overwritten.
CREATE TABLE market (
    scope text PRIMARY KEY,
    listings integer NOT NULL DEFAULT 0,
    log_price double precision,
    prior double precision[] NOT NULL DEFAULT '{}',
    hits double precision[] NOT NULL DEFAULT '{}',
    hits_expected double precision[] NOT NULL DEFAULT '{}',
    fitted_at timestamptz,
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE family (
    scope text NOT NULL,
    name text NOT NULL,
    state jsonb NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (scope, name)
) WITH (fillfactor = 50);

-- The policy by which the listings are placed; another one places them anew before it begins.
CREATE TABLE timetable (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    policy text NOT NULL,
    adopted_at timestamptz NOT NULL
);

ALTER TABLE sync_audit_log DROP CONSTRAINT sync_audit_log_event_type_check;
ALTER TABLE sync_audit_log ADD CONSTRAINT sync_audit_log_event_type_check CHECK (event_type IN (
    'sync_started', 'sync_completed', 'sync_failed', 'price_changed', 'quantity_changed',
    'stock_status_changed', 'shopify_updated', 'shopify_update_failed', 'product_deactivated',
    'dispatch_started', 'first_observed', 'cost_changed', 'change_held', 'sku_missing',
    'not_listed', 'lease_rescued', 'listing_revived',
    'change_approved', 'change_rejected', 'rolled_back', 'product_published', 'publish_blocked',
    'drift_found', 'ids_resolved', 'slot_moved'
));
