-- The second half of the catalog lane: sellers' terms, shops, products, held changes and pushes.

-- A seller's terms; null means the deployment's own. Tier and quota come with the account lane.
CREATE TABLE profiles (
    user_id text PRIMARY KEY,
    price_basis text CHECK (price_basis IN ('list', 'net')),
    markup numeric CHECK (markup > -1),
    rounding text CHECK (rounding IN ('cent', 'whole', '99')),
    margin_min numeric CHECK (margin_min > -1),
    compare_at text CHECK (compare_at IN ('none', 'list')),
    guard_move numeric CHECK (guard_move >= 0),
    guard_share numeric CHECK (guard_share >= 0),

    -- How many listings there are, counted now and then, for the guard against mass changes; and
    -- until when a person has let such a change pass.
    catalogue_count integer NOT NULL DEFAULT 0,
    mass_approved_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- A seller's connection to a platform. Secrets are in `credential`, under the account's scope.
CREATE TABLE connected_accounts (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    platform text NOT NULL CHECK (platform IN ('shopify', 'etsy', 'printify')),
    shop text NOT NULL,
    status text NOT NULL DEFAULT 'connected' CHECK (status IN ('connected', 'disconnected')),
    reason text NOT NULL DEFAULT '',

    -- The shop's locations by name, as it told them.
    locations jsonb,
    locations_at timestamptz,

    -- One pusher per shop: what it writes can never overtake what another wrote.
    push_fence bigint NOT NULL DEFAULT 0,
    push_owner text,
    push_lease_until timestamptz,
    patrol_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT connected_accounts_seller_unique UNIQUE (user_id, platform),
    CONSTRAINT connected_accounts_shop_unique UNIQUE (platform, shop),
    CONSTRAINT connected_accounts_lease CHECK ((push_owner IS NULL) = (push_lease_until IS NULL))
);

-- What is in the shop, by the supplier's SKU and by the shop's.
CREATE TABLE product (
    user_id text NOT NULL,
    sku text NOT NULL,
    shop_sku text NOT NULL,
    title text NOT NULL DEFAULT '',
    shopify_product_id text,
    shopify_variant_id text,
    shopify_inventory_item_id text,
    shopify_handle text,
    status text CHECK (status IN ('ACTIVE', 'ARCHIVED', 'DRAFT', 'UNLISTED')),
    -- What it was before it was parked, to return to on revive.
    former_status text CHECK (former_status IN ('ACTIVE', 'ARCHIVED', 'DRAFT', 'UNLISTED')),
    variants_count integer,

    -- As the shop confirmed it, in the documents' columns.
    price numeric,
    cost_per_item numeric,
    currency text,
    inventory_quantity integer,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, sku),
    CONSTRAINT product_shop_sku_unique UNIQUE (user_id, shop_sku)
);

-- Parts on their way into a shop, and what became of them.
CREATE TABLE product_staging (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    shop_sku text NOT NULL,
    batch_id uuid NOT NULL,
    status text NOT NULL DEFAULT 'requested'
        CHECK (status IN ('requested', 'normalized', 'published', 'blocked', 'failed')),
    reason text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    description text NOT NULL DEFAULT '',
    vendor text NOT NULL DEFAULT '',
    list_price numeric,
    net_price numeric,
    price numeric,
    cost_per_item numeric,
    currency text,
    inventory_quantity integer,
    inventory_status text,
    location_summary text,
    shopify_product_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT product_staging_user_sku_unique UNIQUE (user_id, sku),
    CONSTRAINT product_staging_shop_sku_unique UNIQUE (user_id, shop_sku)
);
CREATE INDEX product_staging_batch ON product_staging (batch_id);

-- The supplier's own words about a part that is being published.
CREATE TABLE boeing_raw_data (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    batch_id uuid,
    raw_payload jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX boeing_raw_data_sku ON boeing_raw_data (user_id, sku);
CREATE INDEX boeing_raw_data_time ON boeing_raw_data (created_at);

ALTER TABLE listing_state
    -- When the shop is to be written; null where nothing is to be written.
    ADD COLUMN push_at timestamptz,
    ADD COLUMN push_failures integer NOT NULL DEFAULT 0,
    ADD COLUMN push_error text,
    -- What a held change would make of the shop, and the proposal that a person refused.
    ADD COLUMN proposed jsonb,
    ADD COLUMN rejected jsonb,
    -- When its price, or its stock to zero, last moved: counted by the guard against mass changes.
    ADD COLUMN moved_at timestamptz,
    -- When the shop was last read back.
    ADD COLUMN verified_at timestamptz;
DROP INDEX listing_state_unapplied;
CREATE INDEX listing_state_push ON listing_state (user_id, push_at) WHERE push_at IS NOT NULL;
CREATE INDEX listing_state_held ON listing_state (user_id, held_at) WHERE held_reason IS NOT NULL;
CREATE INDEX listing_state_moved ON listing_state (user_id, moved_at) WHERE moved_at IS NOT NULL;
CREATE INDEX listing_state_verified ON listing_state (user_id, verified_at NULLS FIRST)
    WHERE applied IS NOT NULL;
-- What was waiting for a storefront before there was one.
UPDATE listing_state SET push_at = coalesce(desired_at, now())
    WHERE desired_version > applied_version;

-- Every write to a shop, stored before it is sent; the id is the idempotency key. One that is open
-- and whose pusher is gone may or may not have arrived: the shop is read back before any other.
CREATE TABLE push_intent (
    id uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    user_id text NOT NULL,
    kind text NOT NULL
        CHECK (kind IN ('stock', 'activate', 'price', 'status', 'create', 'bulk')),
    fence bigint NOT NULL,
    skus text[] NOT NULL,
    writes jsonb NOT NULL,
    progress jsonb,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'void')),
    result text,
    created_at timestamptz NOT NULL,
    closed_at timestamptz,
    CONSTRAINT push_intent_closed CHECK ((state = 'open') = (closed_at IS NULL))
);
CREATE INDEX push_intent_open ON push_intent (account_id, created_at) WHERE state = 'open';
CREATE INDEX push_intent_time ON push_intent (created_at);

ALTER TABLE sync_audit_log DROP CONSTRAINT sync_audit_log_event_type_check;
ALTER TABLE sync_audit_log ADD CONSTRAINT sync_audit_log_event_type_check CHECK (event_type IN (
    'sync_started', 'sync_completed', 'sync_failed', 'price_changed', 'quantity_changed',
    'stock_status_changed', 'shopify_updated', 'shopify_update_failed', 'product_deactivated',
    'dispatch_started', 'first_observed', 'cost_changed', 'change_held', 'sku_missing',
    'not_listed', 'lease_rescued', 'listing_revived',
    'change_approved', 'change_rejected', 'rolled_back', 'product_published', 'publish_blocked',
    'drift_found', 'ids_resolved'
));
