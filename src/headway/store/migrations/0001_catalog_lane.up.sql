-- The catalog lane. Names come from the design documents where they have one; every instant is
-- written by us from our clock, so the defaults of created_at serve only hand-made rows.

CREATE TABLE product_sync_schedule (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,

    -- The slot a policy gave, and when the listing is due.
    hour_bucket smallint NOT NULL CHECK (hour_bucket BETWEEN 0 AND 23),
    minute_offset smallint NOT NULL DEFAULT 0 CHECK (minute_offset BETWEEN 0 AND 59),
    manual_slot_override boolean NOT NULL DEFAULT false,
    next_sync_at timestamptz NOT NULL,
    priority text NOT NULL DEFAULT 'scheduled'
        CHECK (priority IN ('manual', 'onboarding', 'scheduled', 'retry')),
    sync_priority integer NOT NULL DEFAULT 0,

    -- Where it stands, and who holds it.
    sync_status text NOT NULL DEFAULT 'pending'
        CHECK (sync_status IN ('pending', 'syncing', 'success', 'failed', 'parked')),
    fence bigint NOT NULL DEFAULT 0,
    lease_owner text,
    lease_until timestamptz,
    last_sync_started_at timestamptz,

    -- How it went.
    last_sync_at timestamptz,
    last_successful_sync timestamptz,
    last_sync_status text NOT NULL DEFAULT 'pending'
        CHECK (last_sync_status IN ('pending', 'unchanged', 'updated', 'failed')),
    last_error text,
    consecutive_failures integer NOT NULL DEFAULT 0 CHECK (consecutive_failures >= 0),
    missing_count integer NOT NULL DEFAULT 0 CHECK (missing_count >= 0),
    suspicion integer NOT NULL DEFAULT 0 CHECK (suspicion >= 0),

    -- What was last observed, in the documents' columns.
    last_boeing_hash text,
    last_price numeric,
    last_quantity integer,
    last_inventory_status text,
    last_locations jsonb,

    is_active boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT product_sync_schedule_user_sku_unique UNIQUE (user_id, sku),
    CONSTRAINT product_sync_schedule_lease CHECK (
        (sync_status = 'syncing') = (lease_until IS NOT NULL)
        AND (lease_until IS NULL) = (lease_owner IS NULL)
    ),
    CONSTRAINT product_sync_schedule_parked CHECK (sync_status <> 'parked' OR NOT is_active)
) WITH (
    fillfactor = 80,
    -- Each read moves a row, and leaves a dead entry at the very front of the claim's index. Sweep
    -- after so many of them, not after a share of the table, or a claim slows down as it grows.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    vacuum_index_cleanup = on
);

-- The one index of the one claim query: a short range scan per turn, at any size.
CREATE INDEX product_sync_schedule_claim ON product_sync_schedule (priority, next_sync_at)
    WHERE is_active AND sync_status <> 'syncing';
CREATE INDEX product_sync_schedule_sku ON product_sync_schedule (sku);
CREATE INDEX product_sync_schedule_lease_until ON product_sync_schedule (lease_until)
    WHERE sync_status = 'syncing';
CREATE INDEX product_sync_schedule_failing ON product_sync_schedule (consecutive_failures)
    WHERE consecutive_failures > 0;

-- What the supplier said, what the shop should show, what the shop confirmed.
CREATE TABLE listing_state (
    user_id text NOT NULL,
    sku text NOT NULL,
    observed jsonb,
    observed_at timestamptz,
    desired jsonb,
    desired_at timestamptz,
    desired_version bigint NOT NULL DEFAULT 0,
    applied jsonb,
    applied_at timestamptz,
    applied_version bigint NOT NULL DEFAULT 0,
    held_reason text,
    held_at timestamptz,
    PRIMARY KEY (user_id, sku),
    FOREIGN KEY (user_id, sku) REFERENCES product_sync_schedule (user_id, sku)
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE INDEX listing_state_unapplied ON listing_state (desired_at)
    WHERE desired_version > applied_version;

-- Append-only facts. Reads that changed nothing are in the ledger (column skus), not here.
CREATE TABLE sync_audit_log (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    sync_timestamp timestamptz NOT NULL,
    event_type text NOT NULL CHECK (event_type IN (
        'sync_started', 'sync_completed', 'sync_failed', 'price_changed', 'quantity_changed',
        'stock_status_changed', 'shopify_updated', 'shopify_update_failed', 'product_deactivated',
        'dispatch_started', 'first_observed', 'cost_changed', 'change_held', 'sku_missing',
        'not_listed', 'lease_rescued', 'listing_revived'
    )),
    old_value jsonb,
    new_value jsonb,
    error_message text,
    error_code text,
    batch_id uuid,
    task_id text,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sync_audit_log_time ON sync_audit_log (user_id, sync_timestamp DESC);
CREATE INDEX sync_audit_log_sku ON sync_audit_log (sku, sync_timestamp DESC);
CREATE INDEX sync_audit_log_recent ON sync_audit_log (sync_timestamp DESC);

-- One row per limited resource: the row is the lock, the state is the planner's value.
CREATE TABLE limiter (
    key text PRIMARY KEY,
    rules jsonb NOT NULL,
    state jsonb NOT NULL,
    lineage text NOT NULL,
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Every call that was ever permitted, whatever became of it.
CREATE TABLE call_ledger (
    permit_id uuid NOT NULL,
    key text NOT NULL,
    owner text NOT NULL,
    purpose text NOT NULL DEFAULT '',
    cost double precision NOT NULL,
    begun_at timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    finished_at timestamptz,
    arrived_by timestamptz,
    status text NOT NULL DEFAULT 'begun' CHECK (status IN ('begun', 'sent', 'unsent', 'lost')),
    result text,
    http_status integer,
    seats_paid integer,
    skus text[],
    PRIMARY KEY (permit_id, key)
);
CREATE INDEX call_ledger_time ON call_ledger (key, begun_at);

-- Whether a supplier is believed to answer.
CREATE TABLE breaker (
    scope text PRIMARY KEY,
    failures integer NOT NULL DEFAULT 0,
    trips integer NOT NULL DEFAULT 0,
    open_until timestamptz,
    opened_at timestamptz,
    reason text NOT NULL DEFAULT ''
);

-- Tokens shared by all workers, encrypted before they come here.
CREATE TABLE credential (
    scope text NOT NULL,
    name text NOT NULL,
    secret bytea NOT NULL,
    expires_at timestamptz NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (scope, name)
);
CREATE TABLE credential_refresh (
    scope text PRIMARY KEY,
    owner text NOT NULL,
    lease_until timestamptz NOT NULL
);
