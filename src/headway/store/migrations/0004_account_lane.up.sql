-- The account lane: what sellers pay for, jobs that pull from their platforms, and the warehouse.

ALTER TABLE profiles
    ADD COLUMN tier text NOT NULL DEFAULT 'free'
        CHECK (tier IN ('free', 'starter', 'growth', 'pro')),
    -- How many orders placed in that month are in the warehouse: the monthly quota counts these.
    ADD COLUMN orders_month date,
    ADD COLUMN orders_count integer NOT NULL DEFAULT 0 CHECK (orders_count >= 0);

ALTER TABLE connected_accounts
    -- Whom the platform's limit binds where that is not the shop: a Printify account has several.
    ADD COLUMN owner_id text NOT NULL DEFAULT '',
    ADD COLUMN title text NOT NULL DEFAULT '',
    -- From when on the platform lets us see orders; null where it hides none.
    ADD COLUMN horizon_at timestamptz;

-- One account, one kind. What is new is pulled by one job for ever, history by another, once.
CREATE TABLE sync_jobs (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    user_id text NOT NULL,
    platform text NOT NULL CHECK (platform IN ('shopify', 'etsy', 'printify')),
    kind text NOT NULL CHECK (kind IN ('orders', 'listings', 'customers', 'payments')),
    job_type text NOT NULL CHECK (job_type IN ('backfill', 'incremental', 'webhook_triggered')),
    is_backfill boolean NOT NULL GENERATED ALWAYS AS (job_type = 'backfill') STORED,

    -- Who goes first: tier times ten, plus the type; a short range scan per score finds them.
    tier text NOT NULL DEFAULT 'free' CHECK (tier IN ('free', 'starter', 'growth', 'pro')),
    score smallint NOT NULL CHECK (score BETWEEN 11 AND 43),
    status text NOT NULL DEFAULT 'queued' CHECK (status IN (
        'queued', 'running', 'completed', 'plan_limit_reached', 'failed', 'dead', 'cancelled')),
    next_run_at timestamptz,
    -- A webhook that came too late for the run under way: it runs again at once.
    woken_at timestamptz,

    -- Where it is: what lasts, and the walk under way.
    cursor jsonb NOT NULL DEFAULT '{}',
    fence bigint NOT NULL DEFAULT 0,
    lease_owner text,
    lease_until timestamptz,
    started_at timestamptz,
    completed_at timestamptz,

    -- How it went; the estimate of calls is learned, and is what the next run reserves.
    retry_count integer NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    last_error text,
    wait_reason text NOT NULL DEFAULT '',
    calls_estimate double precision NOT NULL DEFAULT 0 CHECK (calls_estimate >= 0),
    run_calls integer NOT NULL DEFAULT 0 CHECK (run_calls >= 0),
    queries_used bigint NOT NULL DEFAULT 0 CHECK (queries_used >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT sync_jobs_one_each UNIQUE (account_id, kind, is_backfill),
    CONSTRAINT sync_jobs_lease CHECK (
        (status = 'running') = (lease_until IS NOT NULL)
        AND (lease_until IS NULL) = (lease_owner IS NULL)
    ),
    -- Whoever waits knows until when; a backfill that is done, the dead and the cancelled do not.
    CONSTRAINT sync_jobs_waits CHECK (CASE status
        WHEN 'queued' THEN next_run_at IS NOT NULL
        WHEN 'failed' THEN next_run_at IS NOT NULL
        WHEN 'plan_limit_reached' THEN next_run_at IS NOT NULL
        WHEN 'completed' THEN (next_run_at IS NULL) = (job_type = 'backfill')
        WHEN 'dead' THEN next_run_at IS NULL
        WHEN 'cancelled' THEN next_run_at IS NULL
        ELSE true END)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    vacuum_index_cleanup = on
);
CREATE INDEX sync_jobs_claim ON sync_jobs (platform, score, next_run_at) WHERE status = 'queued';
CREATE INDEX sync_jobs_again ON sync_jobs (next_run_at)
    WHERE status IN ('completed', 'failed', 'plan_limit_reached') AND next_run_at IS NOT NULL;
-- One running job per seller and platform, by the database's own word.
CREATE UNIQUE INDEX sync_jobs_running ON sync_jobs (account_id) WHERE status = 'running';
CREATE INDEX sync_jobs_lease_until ON sync_jobs (lease_until) WHERE status = 'running';
CREATE INDEX sync_jobs_seller ON sync_jobs (user_id, platform);
-- What needs a person is found at once among any number that do not.
CREATE INDEX sync_jobs_stopped ON sync_jobs (status, updated_at DESC)
    WHERE status IN ('dead', 'cancelled');
CREATE INDEX connected_accounts_lost ON connected_accounts (user_id, platform)
    WHERE status = 'disconnected';

-- What was used of a budget, by hour: the curve on the page, and what paid sellers need.
CREATE TABLE rate_budgets (
    scope text NOT NULL,
    platform text NOT NULL,
    hour timestamptz NOT NULL,
    tier text NOT NULL CHECK (tier IN ('free', 'starter', 'growth', 'pro')),
    used double precision NOT NULL DEFAULT 0,
    -- History waits behind everybody's news, so it is counted apart.
    is_backfill boolean NOT NULL DEFAULT false,
    PRIMARY KEY (scope, hour, tier, is_backfill)
);

-- The warehouse. Every row belongs to an account; ids are the platform's own.
CREATE TABLE orders (
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    external_id text NOT NULL,
    user_id text NOT NULL,
    platform text NOT NULL,
    number text NOT NULL DEFAULT '',
    status text NOT NULL,
    payment_status text NOT NULL DEFAULT '',
    fulfillment_status text NOT NULL DEFAULT '',
    is_open boolean NOT NULL,
    currency text NOT NULL,
    total numeric NOT NULL,
    subtotal numeric,
    shipping numeric,
    tax numeric,
    discount numeric,
    customer_id text,
    placed_at timestamptz NOT NULL,
    modified_at timestamptz,
    cancelled_at timestamptz,
    -- When we last read it, changed or not: open ones are read again.
    checked_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, external_id)
);
CREATE INDEX orders_placed ON orders (user_id, placed_at DESC);
CREATE INDEX orders_newest ON orders (account_id, placed_at DESC);
CREATE INDEX orders_open ON orders (account_id, checked_at) WHERE is_open;

CREATE TABLE line_items (
    account_id uuid NOT NULL,
    order_id text NOT NULL,
    external_id text NOT NULL,
    user_id text NOT NULL,
    listing_id text,
    sku text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    quantity integer NOT NULL,
    price numeric NOT NULL,
    currency text NOT NULL,
    PRIMARY KEY (account_id, order_id, external_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders (account_id, external_id)
        ON DELETE CASCADE
);
CREATE INDEX line_items_sku ON line_items (user_id, sku);

CREATE TABLE shipments (
    account_id uuid NOT NULL,
    order_id text NOT NULL,
    external_id text NOT NULL,
    user_id text NOT NULL,
    status text NOT NULL DEFAULT '',
    carrier text NOT NULL DEFAULT '',
    tracking text NOT NULL DEFAULT '',
    shipped_at timestamptz,
    delivered_at timestamptz,
    PRIMARY KEY (account_id, order_id, external_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders (account_id, external_id)
        ON DELETE CASCADE
);

CREATE TABLE refunds (
    account_id uuid NOT NULL,
    order_id text NOT NULL,
    external_id text NOT NULL,
    user_id text NOT NULL,
    status text NOT NULL DEFAULT '',
    amount numeric NOT NULL,
    currency text NOT NULL,
    reason text NOT NULL DEFAULT '',
    refunded_at timestamptz,
    PRIMARY KEY (account_id, order_id, external_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders (account_id, external_id)
        ON DELETE CASCADE
);

CREATE TABLE listings (
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    external_id text NOT NULL,
    user_id text NOT NULL,
    platform text NOT NULL,
    sku text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    -- The platform's own word, or `removed` once a whole walk has not seen it.
    state text NOT NULL,
    price numeric,
    currency text NOT NULL DEFAULT '',
    quantity integer,
    modified_at timestamptz,
    checked_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, external_id)
);
CREATE INDEX listings_checked ON listings (account_id, checked_at) WHERE state <> 'removed';
CREATE INDEX listings_sku ON listings (user_id, sku);

CREATE TABLE customers (
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    external_id text NOT NULL,
    user_id text NOT NULL,
    platform text NOT NULL,
    name text NOT NULL DEFAULT '',
    email text NOT NULL DEFAULT '',
    country text NOT NULL DEFAULT '',
    modified_at timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, external_id)
);

CREATE TABLE payments (
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    external_id text NOT NULL,
    user_id text NOT NULL,
    platform text NOT NULL,
    order_id text,
    kind text NOT NULL,
    status text NOT NULL DEFAULT '',
    -- Signed: what the seller gets is positive, what is taken is negative.
    amount numeric NOT NULL,
    currency text NOT NULL,
    paid_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, external_id)
);
CREATE INDEX payments_paid ON payments (user_id, paid_at DESC);

-- A row of a page that made no sense, in the platform's own words: not lost, and healed by the next
-- reading that does.
CREATE TABLE unreadable_records (
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    kind text NOT NULL,
    external_id text NOT NULL,
    user_id text NOT NULL,
    reason text NOT NULL,
    raw jsonb NOT NULL,
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, kind, external_id)
);

-- Webhooks that were verified. The platform's id keeps a replay out; what is wanted is read soon.
CREATE TABLE webhook_deliveries (
    platform text NOT NULL,
    delivery_id text NOT NULL,
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    topic text NOT NULL,
    kind text NOT NULL,
    external_id text,
    received_at timestamptz NOT NULL,
    -- When a run read what it names; null while it is wanted.
    handled_at timestamptz,
    PRIMARY KEY (platform, delivery_id)
);
CREATE INDEX webhook_deliveries_wanted ON webhook_deliveries (account_id, kind, received_at)
    WHERE handled_at IS NULL;
CREATE INDEX webhook_deliveries_time ON webhook_deliveries (received_at);

-- A person on the way through a platform's consent page.
CREATE TABLE oauth_visits (
    state text PRIMARY KEY,
    platform text NOT NULL,
    user_id text NOT NULL,
    shop text NOT NULL DEFAULT '',
    verifier bytea NOT NULL,
    expires_at timestamptz NOT NULL
);

-- What a seller is told: a job is dead, an account is disconnected, a token will expire.
CREATE TABLE notices (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    topic text NOT NULL CHECK (topic IN ('job_dead', 'account_disconnected', 'token_expiring')),
    -- The same news is told once: of which job, account or token, and since when.
    subject text NOT NULL,
    text text NOT NULL,
    created_at timestamptz NOT NULL,
    delivered_at timestamptz,
    CONSTRAINT notices_once UNIQUE (topic, subject)
);
CREATE INDEX notices_seller ON notices (user_id, created_at DESC);
CREATE INDEX notices_time ON notices (created_at DESC);

-- Events of the account lane name a job, or only a seller, instead of a SKU.
ALTER TABLE sync_audit_log ALTER COLUMN sku DROP NOT NULL;
ALTER TABLE sync_audit_log ADD COLUMN job_id uuid;
CREATE INDEX sync_audit_log_job ON sync_audit_log (job_id, sync_timestamp DESC)
    WHERE job_id IS NOT NULL;
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
    'plan_limit_lifted', 'account_connected', 'account_disconnected', 'token_refreshed'
));
