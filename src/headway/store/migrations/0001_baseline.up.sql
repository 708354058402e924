-- The schema of Headway 1, one section per subject:
--   events, sellers, limits, timetable, catalog, accounts, pauses, monitoring, access, dispatch,
--   and tenant isolation.
-- Table and column names come from the design documents where those have one. Times are UTC, money
-- is numeric, and enumerations are text with a CHECK. Headway writes every timestamp from its own
-- clock, so defaults such as now() apply only to rows inserted by hand.


-- ==================================================================================================
-- Events: the append-only history
-- ==================================================================================================

-- The only list of event types. A later migration extends it with ALTER DOMAIN.
CREATE DOMAIN audit_event_type AS text CONSTRAINT audit_event_type_check CHECK (VALUE IN (
    -- reads of the supplier
    'sync_started', 'sync_completed', 'sync_failed', 'dispatch_started', 'first_observed',
    'price_changed', 'cost_changed', 'quantity_changed', 'stock_status_changed',
    'sku_missing', 'not_listed', 'lease_rescued', 'slot_moved',
    -- listings and their shop
    'shopify_updated', 'shopify_update_failed', 'product_deactivated', 'listing_revived',
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
    'supplier_added', 'supplier_removed', 'supplier_chosen',
    -- monitoring
    'alert_fired', 'alert_resolved'
));
COMMENT ON DOMAIN audit_event_type IS 'Type of an event in sync_audit_log.';

CREATE TABLE sync_audit_log (
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text,
    job_id uuid,
    sync_timestamp timestamptz NOT NULL,
    event_type audit_event_type NOT NULL,
    old_value jsonb,
    new_value jsonb,
    error_message text,
    error_code text,
    batch_id uuid,
    task_id text,
    actor text DEFAULT nullif(current_setting('headway.actor', true), ''),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (id, sync_timestamp)
) PARTITION BY RANGE (sync_timestamp);
CREATE INDEX sync_audit_log_time ON sync_audit_log (user_id, sync_timestamp DESC);
CREATE INDEX sync_audit_log_sku ON sync_audit_log (sku, sync_timestamp DESC);
CREATE INDEX sync_audit_log_recent ON sync_audit_log (sync_timestamp DESC);
CREATE INDEX sync_audit_log_job ON sync_audit_log (job_id, sync_timestamp DESC)
    WHERE job_id IS NOT NULL;
CREATE INDEX sync_audit_log_pauses ON sync_audit_log (sync_timestamp)
    WHERE event_type IN ('sync_paused', 'sync_resumed');
COMMENT ON TABLE sync_audit_log IS
    'Append-only events, partitioned by month. Reads that changed nothing are recorded only in call_ledger.skus.';
COMMENT ON COLUMN sync_audit_log.user_id IS
    'Seller; empty where the event concerns all sellers, for example a pause of everything or a key of an operator.';
COMMENT ON COLUMN sync_audit_log.sku IS 'Listing the event is about; NULL for events of the account lane and of people.';
COMMENT ON COLUMN sync_audit_log.job_id IS 'Account job the event is about.';
COMMENT ON COLUMN sync_audit_log.sync_timestamp IS 'When it happened.';
COMMENT ON COLUMN sync_audit_log.batch_id IS 'Call, push or publish request that caused the event.';
COMMENT ON COLUMN sync_audit_log.error_code IS 'The documents'' column; not written.';
COMMENT ON COLUMN sync_audit_log.task_id IS 'The documents'' column; not written.';
COMMENT ON COLUMN sync_audit_log.actor IS
    'Name of the key, session or command that caused the event, from the setting headway.actor of the transaction.';

CREATE TABLE sync_audit_log_other PARTITION OF sync_audit_log DEFAULT;
COMMENT ON TABLE sync_audit_log_other IS
    'Events of months that have no partition yet, so that no event is refused because of its date.';

CREATE VIEW history_months AS
SELECT part.relname::text AS name,
    substring(bound FROM 'FROM \(''([^'']*)''\)')::timestamptz AS since,
    substring(bound FROM 'TO \(''([^'']*)''\)')::timestamptz AS until
FROM pg_inherits
JOIN pg_class AS part ON part.oid = inhrelid
CROSS JOIN LATERAL pg_get_expr(part.relpartbound, part.oid) AS bound
WHERE inhparent = 'sync_audit_log'::regclass AND bound <> 'DEFAULT';
COMMENT ON VIEW history_months IS
    'Partitions of sync_audit_log with their bounds; since is NULL for a partition without a lower bound.';

CREATE FUNCTION make_history_month(instant timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    month timestamp := date_trunc('month', instant AT TIME ZONE 'UTC');
    from_at timestamptz := month AT TIME ZONE 'UTC';
    to_at timestamptz := (month + interval '1 month') AT TIME ZONE 'UTC';
    name text := 'sync_audit_log_' || to_char(month, 'YYYY_MM');
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('headway history months', 0));
    IF to_regclass(name) IS NOT NULL OR EXISTS (
        SELECT FROM history_months WHERE since IS NULL AND until > from_at
    ) THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE sync_audit_log INCLUDING ALL)', name);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format(
        'CREATE POLICY seller ON %I TO headway_seller'
        ' USING (user_id = (SELECT current_setting(''headway.seller'', true)))'
        ' WITH CHECK (user_id = (SELECT current_setting(''headway.seller'', true)))', name);
    LOCK TABLE sync_audit_log_other IN ACCESS EXCLUSIVE MODE;
    EXECUTE format(
        'WITH strays AS (DELETE FROM sync_audit_log_other'
        ' WHERE sync_timestamp >= %L AND sync_timestamp < %L RETURNING *)'
        ' INSERT INTO %I SELECT * FROM strays', from_at, to_at, name);
    EXECUTE format('ALTER TABLE sync_audit_log ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
        name, from_at, to_at);
    RETURN true;
END $$;
COMMENT ON FUNCTION make_history_month IS
    'Create the partition for the month of an instant and return True, or return False if one covers it. Events of that month in sync_audit_log_other move into it.';


-- ==================================================================================================
-- Sellers, their suppliers and their connections
-- ==================================================================================================

CREATE TABLE profiles (
    user_id text PRIMARY KEY,
    tier text NOT NULL DEFAULT 'free' CHECK (tier IN ('free', 'starter', 'growth', 'pro')),
    supplier text NOT NULL DEFAULT 'main',
    price_basis text CHECK (price_basis IN ('list', 'net')),
    markup numeric CHECK (markup > -1),
    rounding text CHECK (rounding IN ('cent', 'whole', '99')),
    margin_min numeric CHECK (margin_min > -1),
    compare_at text CHECK (compare_at IN ('keep', 'clear', 'list')),
    channels text,
    oversell text CHECK (oversell IN ('keep', 'deny')),
    description_template text,
    guard_move numeric CHECK (guard_move >= 0),
    guard_share numeric CHECK (guard_share >= 0),
    listing_count integer NOT NULL DEFAULT 0,
    mass_approved_until timestamptz,
    orders_month date,
    orders_count integer NOT NULL DEFAULT 0 CHECK (orders_count >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX profiles_supplier ON profiles (supplier) WHERE supplier <> 'main';
COMMENT ON TABLE profiles IS
    'One row per seller: plan, supplier, pricing and guard. NULL in a pricing or guard column means the setting of the deployment.';
COMMENT ON COLUMN profiles.tier IS 'The plan the seller pays for.';
COMMENT ON COLUMN profiles.supplier IS 'Supplier all listings of this seller are read from; main is the one in the settings.';
COMMENT ON COLUMN profiles.price_basis IS 'Supplier price the shop price is computed from.';
COMMENT ON COLUMN profiles.markup IS 'Share added to the price basis; 0.1 is 10 %.';
COMMENT ON COLUMN profiles.margin_min IS 'Smallest markup over cost: a lower price is raised to it.';
COMMENT ON COLUMN profiles.compare_at IS 'Crossed-out price: keep the merchant''s own, clear it, or set the list price.';
COMMENT ON COLUMN profiles.channels IS 'Sales channels that published parts are visible on, separated by commas; none means nowhere.';
COMMENT ON COLUMN profiles.oversell IS 'Variants that sell at zero stock: keep and report them, or deny it.';
COMMENT ON COLUMN profiles.description_template IS 'HTML with placeholders that new products are described with.';
COMMENT ON COLUMN profiles.guard_move IS 'Largest price change, as a share, that is pushed without approval.';
COMMENT ON COLUMN profiles.guard_share IS 'Largest share of the listings that may change in a day without approval.';
COMMENT ON COLUMN profiles.listing_count IS 'Number of listings, counted periodically; the guard against mass changes uses it.';
COMMENT ON COLUMN profiles.mass_approved_until IS 'Until when a person has approved a mass change.';
COMMENT ON COLUMN profiles.orders_month IS 'Month that orders_count refers to.';
COMMENT ON COLUMN profiles.orders_count IS 'Stored orders placed in orders_month; the monthly quota of the plan counts these.';

CREATE TABLE suppliers (
    name text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9-]{0,39}$' AND name <> 'main'),
    client_id text NOT NULL CHECK (client_id <> ''),
    username text NOT NULL CHECK (username <> ''),
    url text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    removed_at timestamptz
);
CREATE UNIQUE INDEX suppliers_client_id ON suppliers (client_id) WHERE removed_at IS NULL;
COMMENT ON TABLE suppliers IS
    'Supplier credentials besides the one in the settings (main), each with a rate limit of its own. Passwords are in credential. A name is never reused, so a removed supplier keeps its row.';
COMMENT ON COLUMN suppliers.url IS 'Base URL; empty means the one in the settings.';

CREATE TABLE connected_accounts (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    platform text NOT NULL CHECK (platform IN ('shopify', 'etsy', 'printify')),
    shop text NOT NULL,
    owner_id text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'connected' CHECK (status IN ('connected', 'disconnected')),
    reason text NOT NULL DEFAULT '',
    horizon_at timestamptz,
    locations jsonb,
    scopes text[],
    locations_at timestamptz,
    push_started_at timestamptz,
    channels jsonb,
    channels_at timestamptz,
    missing_scopes text[] NOT NULL DEFAULT '{}',
    push_fence bigint NOT NULL DEFAULT 0,
    push_owner text,
    push_lease_until timestamptz,
    drift_check_at timestamptz,
    refusals integer NOT NULL DEFAULT 0,
    refused_since timestamptz,
    refused_at timestamptz,
    suspensions integer NOT NULL DEFAULT 0,
    wait_until timestamptz,
    wait_reason text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT connected_accounts_seller_unique UNIQUE (user_id, platform),
    CONSTRAINT connected_accounts_shop_unique UNIQUE (platform, shop),
    CONSTRAINT connected_accounts_lease CHECK ((push_owner IS NULL) = (push_lease_until IS NULL))
);
CREATE INDEX connected_accounts_disconnected ON connected_accounts (user_id, platform)
    WHERE status = 'disconnected';
CREATE INDEX connected_accounts_waiting ON connected_accounts (platform) WHERE wait_until IS NOT NULL;
COMMENT ON TABLE connected_accounts IS
    'Connections of sellers to platforms, at most one per seller and platform. Tokens are in credential.';
COMMENT ON COLUMN connected_accounts.shop IS 'The shop as the platform names it: a domain or an id.';
COMMENT ON COLUMN connected_accounts.owner_id IS
    'Account at the platform that its rate limit applies to, where that is not the shop (Printify).';
COMMENT ON COLUMN connected_accounts.reason IS 'Why it is disconnected.';
COMMENT ON COLUMN connected_accounts.horizon_at IS 'The platform hides orders older than this; NULL if it hides none.';
COMMENT ON COLUMN connected_accounts.locations IS 'Stock locations of the shop: name to id.';
COMMENT ON COLUMN connected_accounts.scopes IS
    'Access scopes that the shop granted our app, read with its locations; NULL if not known.';
COMMENT ON COLUMN connected_accounts.push_started_at IS
    'When a person let Headway write to the shop; NULL while it is in rehearsal: read, and never written.';
COMMENT ON COLUMN connected_accounts.channels IS 'Sales channels of the shop: name to id.';
COMMENT ON COLUMN connected_accounts.channels_at IS 'When the sales channels were read; NULL makes the next push read them.';
COMMENT ON COLUMN connected_accounts.missing_scopes IS
    'Scopes that publishing needs and the merchant has not granted.';
COMMENT ON COLUMN connected_accounts.push_fence IS
    'Fencing number of the push lease. Only one worker writes to a shop at a time.';
COMMENT ON COLUMN connected_accounts.push_owner IS 'Worker that holds the push lease.';
COMMENT ON COLUMN connected_accounts.refusals IS
    'Spaced refusals of its token since the last good answer; several end the connection (core/accounts/refusals.py).';
COMMENT ON COLUMN connected_accounts.refused_since IS 'The first of these refusals.';
COMMENT ON COLUMN connected_accounts.refused_at IS 'The last of these refusals.';
COMMENT ON COLUMN connected_accounts.suspensions IS
    'How often in a row the platform answered that the account is frozen, locked or lacks a permission.';
COMMENT ON COLUMN connected_accounts.wait_until IS
    'Nothing is asked of a refused or suspended account before this; NULL after a good answer.';
COMMENT ON COLUMN connected_accounts.wait_reason IS 'Why it waits.';
COMMENT ON COLUMN connected_accounts.drift_check_at IS 'When the shop is next compared with what was pushed.';

CREATE TABLE credential (
    credential_key text NOT NULL,
    name text NOT NULL,
    secret bytea NOT NULL,
    expires_at timestamptz NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (credential_key, name)
);
COMMENT ON TABLE credential IS 'Tokens and passwords shared by all workers, encrypted before they are stored.';
COMMENT ON COLUMN credential.credential_key IS 'What it belongs to: a supplier, or a platform and shop, for example etsy:123.';
COMMENT ON COLUMN credential.name IS 'Kind of secret, for example access, refresh or client_secret.';
COMMENT ON COLUMN credential.version IS 'Increases with each new secret.';

CREATE TABLE credential_refresh (
    credential_key text PRIMARY KEY,
    owner text NOT NULL,
    lease_until timestamptz NOT NULL
);
COMMENT ON TABLE credential_refresh IS 'Lease on refreshing a token, so that one worker does it.';


-- ==================================================================================================
-- Limits
-- ==================================================================================================

CREATE TABLE limiter (
    limit_key text PRIMARY KEY,
    rules jsonb NOT NULL,
    state jsonb NOT NULL,
    lineage text NOT NULL,
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE limiter IS 'One row per limit key: the row is the lock, its state the sliding log of recent calls.';
COMMENT ON COLUMN limiter.limit_key IS 'What the limit applies to: a supplier credential, an app and shop, an account.';
COMMENT ON COLUMN limiter.rules IS 'Windows and amounts as the code last declared them.';
COMMENT ON COLUMN limiter.state IS 'State of core.limits: open permits, past calls, waiting callers, holds.';
COMMENT ON COLUMN limiter.lineage IS
    'Identity of the database that wrote the state. After a restore it differs, and the limiter waits out one window.';

CREATE TABLE call_ledger (
    permit_id uuid NOT NULL,
    limit_key text NOT NULL,
    owner text NOT NULL,
    purpose text NOT NULL DEFAULT '',
    cost double precision NOT NULL,
    status text NOT NULL DEFAULT 'begun' CHECK (status IN ('begun', 'sent', 'unsent', 'lost')),
    begun_at timestamptz NOT NULL,
    lease_until timestamptz NOT NULL,
    finished_at timestamptz,
    arrived_by timestamptz,
    result text,
    http_status integer,
    seats_paid integer,
    skus text[],
    PRIMARY KEY (permit_id, limit_key)
);
CREATE INDEX call_ledger_time ON call_ledger (limit_key, begun_at);
COMMENT ON TABLE call_ledger IS 'Every call that was permitted, with its outcome; headway check verifies the limits from it.';
COMMENT ON COLUMN call_ledger.cost IS 'Weight of the call: 1, or points.';
COMMENT ON COLUMN call_ledger.status IS 'lost means that the worker ended without reporting; the call counts as made.';
COMMENT ON COLUMN call_ledger.begun_at IS 'When the permit was issued.';
COMMENT ON COLUMN call_ledger.arrived_by IS 'Latest moment at which the provider may have counted the call.';
COMMENT ON COLUMN call_ledger.result IS 'ok, or what went wrong.';
COMMENT ON COLUMN call_ledger.seats_paid IS 'Seats the call could hold.';
COMMENT ON COLUMN call_ledger.skus IS 'SKUs that were read by the call.';

CREATE TABLE breaker (
    limit_key text PRIMARY KEY,
    failures integer NOT NULL DEFAULT 0,
    trips integer NOT NULL DEFAULT 0,
    open_until timestamptz,
    opened_at timestamptz,
    reason text NOT NULL DEFAULT ''
);
COMMENT ON TABLE breaker IS 'Circuit breakers: no calls while open_until lies ahead.';
COMMENT ON COLUMN breaker.failures IS 'Failed calls in a row.';
COMMENT ON COLUMN breaker.trips IS 'Times it opened in a row; each time for longer.';

CREATE TABLE supplier_locations (
    supplier text NOT NULL,
    name text NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    PRIMARY KEY (supplier, name)
);
COMMENT ON TABLE supplier_locations IS 'Locations with stock that nobody has mapped or left out.';

CREATE TABLE rate_budgets (
    limit_key text NOT NULL,
    platform text NOT NULL,
    hour timestamptz NOT NULL,
    tier text NOT NULL CHECK (tier IN ('free', 'starter', 'growth', 'pro')),
    used double precision NOT NULL DEFAULT 0,
    is_backfill boolean NOT NULL DEFAULT false,
    PRIMARY KEY (limit_key, hour, tier, is_backfill)
);
COMMENT ON TABLE rate_budgets IS 'Calls used of a daily quota, by hour and tier: the usage chart, and the base of each tier''s share.';
COMMENT ON COLUMN rate_budgets.is_backfill IS 'Calls for history are counted separately, because they yield to new data.';


-- ==================================================================================================
-- Timetable
-- ==================================================================================================

CREATE TABLE product_sync_schedule (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    supplier text NOT NULL DEFAULT 'main',

    -- the slot, and when the listing is due
    hour_bucket smallint NOT NULL CHECK (hour_bucket BETWEEN 0 AND 23),
    minute_offset smallint NOT NULL DEFAULT 0 CHECK (minute_offset BETWEEN 0 AND 59),
    manual_slot_override boolean NOT NULL DEFAULT false,
    next_sync_at timestamptz NOT NULL,
    priority text NOT NULL DEFAULT 'scheduled'
        CHECK (priority IN ('manual', 'onboarding', 'scheduled', 'retry')),
    sync_priority integer NOT NULL DEFAULT 0,

    -- status and lease
    is_active boolean NOT NULL DEFAULT true,
    is_paused boolean NOT NULL DEFAULT false,
    sync_status text NOT NULL DEFAULT 'pending'
        CHECK (sync_status IN ('pending', 'syncing', 'success', 'failed', 'parked')),
    fence bigint NOT NULL DEFAULT 0,
    lease_owner text,
    lease_until timestamptz,
    last_sync_started_at timestamptz,

    -- outcome of the last reads
    last_sync_at timestamptz,
    last_successful_sync timestamptz,
    last_sync_status text NOT NULL DEFAULT 'pending'
        CHECK (last_sync_status IN ('pending', 'unchanged', 'updated', 'failed')),
    last_error text,
    consecutive_failures integer NOT NULL DEFAULT 0 CHECK (consecutive_failures >= 0),
    retried_at timestamptz,
    missing_count integer NOT NULL DEFAULT 0 CHECK (missing_count >= 0),
    suspicion integer NOT NULL DEFAULT 0 CHECK (suspicion >= 0),

    -- last observed values, in the documents' columns
    last_boeing_hash text,
    last_price numeric,
    last_quantity integer,
    last_inventory_status text,
    last_locations jsonb,

    -- what the adaptive policy knows
    changes_seen double precision NOT NULL DEFAULT 0 CHECK (changes_seen >= 0),
    watched_days double precision NOT NULL DEFAULT 0 CHECK (watched_days >= 0),
    changed_at timestamptz,
    value_weight double precision NOT NULL DEFAULT 1
        CHECK (value_weight > 0 AND value_weight <= 1000000),
    family text,
    channels text,
    swept_from timestamptz,

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
    -- Each read moves a row and leaves a dead entry at the front of the claim's index. Vacuum after
    -- a fixed number of them, not after a share of the table, or claims slow down as it grows.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    vacuum_index_cleanup = on
);
-- The claim: one short range scan per supplier and priority, at any size.
CREATE INDEX product_sync_schedule_front ON product_sync_schedule (supplier, priority, next_sync_at)
    WHERE is_active AND sync_status <> 'syncing' AND NOT is_paused;
-- The oldest read of one supplier: the adaptive policy's deadline and market.
CREATE INDEX product_sync_schedule_supplier
    ON product_sync_schedule (supplier, last_successful_sync)
    WHERE is_active AND sync_status <> 'syncing' AND NOT is_paused;
-- The oldest read of all: lists of fresh and stale listings, for everyone and for one seller.
-- Like the claim's index these leave out listings being read, so that a claim adds no entry.
CREATE INDEX product_sync_schedule_oldest
    ON product_sync_schedule (last_successful_sync, user_id, sku)
    WHERE is_active AND sync_status <> 'syncing' AND NOT is_paused;
CREATE INDEX product_sync_schedule_seller_oldest
    ON product_sync_schedule (user_id, last_successful_sync, sku)
    WHERE is_active AND sync_status <> 'syncing' AND consecutive_failures = 0 AND NOT is_paused;
CREATE INDEX product_sync_schedule_sku ON product_sync_schedule (sku);
CREATE INDEX product_sync_schedule_lease_until ON product_sync_schedule (lease_until)
    WHERE sync_status = 'syncing';
CREATE INDEX product_sync_schedule_failing ON product_sync_schedule (consecutive_failures)
    WHERE consecutive_failures > 0;
CREATE INDEX product_sync_schedule_retried ON product_sync_schedule (retried_at)
    WHERE retried_at IS NOT NULL;
CREATE INDEX product_sync_schedule_family ON product_sync_schedule (family, last_successful_sync)
    WHERE is_active AND family IS NOT NULL AND NOT is_paused;
-- Lists by state.
CREATE INDEX product_sync_schedule_paused ON product_sync_schedule (user_id, sku) WHERE is_paused;
CREATE INDEX product_sync_schedule_retrying ON product_sync_schedule (user_id, sku)
    WHERE is_active AND consecutive_failures > 0 AND sync_status <> 'syncing' AND NOT is_paused;
CREATE INDEX product_sync_schedule_parked ON product_sync_schedule (user_id, sku)
    WHERE sync_status = 'parked';
CREATE INDEX product_sync_schedule_inactive ON product_sync_schedule (user_id, sku)
    WHERE NOT is_active AND sync_status <> 'parked';
COMMENT ON TABLE product_sync_schedule IS 'Listings (one SKU of one seller): when each is due, its lease, and how reading it went.';
COMMENT ON COLUMN product_sync_schedule.supplier IS 'Copy of profiles.supplier, so that the claim needs one index.';
COMMENT ON COLUMN product_sync_schedule.hour_bucket IS 'Hour of the slot the policy assigned, UTC.';
COMMENT ON COLUMN product_sync_schedule.minute_offset IS 'Minute of the slot.';
COMMENT ON COLUMN product_sync_schedule.manual_slot_override IS 'A person chose the slot; policies leave it.';
COMMENT ON COLUMN product_sync_schedule.next_sync_at IS 'When the listing is due.';
COMMENT ON COLUMN product_sync_schedule.priority IS 'Why it takes part in the next call; manual goes first, then onboarding, scheduled, retry.';
COMMENT ON COLUMN product_sync_schedule.sync_priority IS 'Minutes by which the listing is due before its slot.';
COMMENT ON COLUMN product_sync_schedule.is_paused IS 'Copy of a pause, so that claims skip the row by index; pauses has the facts.';
COMMENT ON COLUMN product_sync_schedule.fence IS 'Fencing number: increases with each claim, and a settle with an older number is refused.';
COMMENT ON COLUMN product_sync_schedule.lease_owner IS 'Call that holds the listing while it is being read.';
COMMENT ON COLUMN product_sync_schedule.last_sync_at IS 'Last read, good or bad.';
COMMENT ON COLUMN product_sync_schedule.last_successful_sync IS 'Last good read; the deadline counts from here.';
COMMENT ON COLUMN product_sync_schedule.consecutive_failures IS 'Failures in a row that were the SKU''s fault.';
COMMENT ON COLUMN product_sync_schedule.retried_at IS 'When it was last read as a retry; the cap of a retry window counts these.';
COMMENT ON COLUMN product_sync_schedule.missing_count IS 'Reads in a row whose reply left the SKU out.';
COMMENT ON COLUMN product_sync_schedule.suspicion IS 'Failed calls in a row that this listing was part of; decides how calls are split to find a bad SKU.';
COMMENT ON COLUMN product_sync_schedule.last_boeing_hash IS 'Hash of the last observed quote.';
COMMENT ON COLUMN product_sync_schedule.changes_seen IS 'Observed changes; older ones count less.';
COMMENT ON COLUMN product_sync_schedule.watched_days IS 'Days those changes were observed in; older ones count less.';
COMMENT ON COLUMN product_sync_schedule.changed_at IS 'Last observed change.';
COMMENT ON COLUMN product_sync_schedule.value_weight IS 'Cost of a minute of staleness, compared with other listings.';
COMMENT ON COLUMN product_sync_schedule.channels IS 'Its own sales channels, as imported; NULL means the seller''s where Headway published it, else the merchant''s.';
COMMENT ON COLUMN product_sync_schedule.family IS 'Group of listings that change together: as imported, else the manufacturer.';
COMMENT ON COLUMN product_sync_schedule.swept_from IS 'Its own due time, while a change in its family has made it due earlier.';

CREATE TABLE market (
    limit_key text PRIMARY KEY,
    listings integer NOT NULL DEFAULT 0,
    log_price double precision,
    prior double precision[] NOT NULL DEFAULT '{}',
    hits double precision[] NOT NULL DEFAULT '{}',
    hits_expected double precision[] NOT NULL DEFAULT '{}',
    fitted_at timestamptz,
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE market IS 'Adaptive policy: the price of a seat for each supplier. Workers add to it and never overwrite it.';
COMMENT ON COLUMN market.listings IS 'Distinct SKUs the supplier is read for.';
COMMENT ON COLUMN market.log_price IS 'Natural logarithm of the price of a seat; NULL until it was derived from the prior.';
COMMENT ON COLUMN market.prior IS 'Distribution of change rates over all listings.';
COMMENT ON COLUMN market.hits IS 'Changes found, by time since the last change.';
COMMENT ON COLUMN market.hits_expected IS 'Changes expected, by the same bins.';

CREATE TABLE family (
    limit_key text NOT NULL,
    name text NOT NULL,
    state jsonb NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (limit_key, name)
) WITH (fillfactor = 50);
COMMENT ON TABLE family IS 'Adaptive policy: how often the listings of a family change together.';

CREATE TABLE timetable (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    policy text NOT NULL,
    adopted_at timestamptz NOT NULL
);
COMMENT ON TABLE timetable IS
    'One row: the policy by which the listings are placed. When the setting names another, Headway places all listings again first.';


-- ==================================================================================================
-- Catalog
-- ==================================================================================================

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
    shown jsonb,
    verified_at timestamptz,
    moved_at timestamptz,
    held_reason text,
    held_at timestamptz,
    proposed jsonb,
    rejected jsonb,
    push_at timestamptz,
    push_failures integer NOT NULL DEFAULT 0,
    push_error text,
    PRIMARY KEY (user_id, sku),
    FOREIGN KEY (user_id, sku) REFERENCES product_sync_schedule (user_id, sku)
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE INDEX listing_state_push ON listing_state (user_id, push_at) WHERE push_at IS NOT NULL;
CREATE INDEX listing_state_refused ON listing_state (user_id, push_failures DESC, sku)
    WHERE push_at IS NOT NULL AND push_failures > 0;
CREATE INDEX listing_state_unpublished ON listing_state (user_id)
    WHERE push_at IS NOT NULL AND push_error LIKE 'not published: %';
CREATE INDEX listing_state_held ON listing_state (user_id, held_at) WHERE held_reason IS NOT NULL;
CREATE INDEX listing_state_moved ON listing_state (user_id, moved_at) WHERE moved_at IS NOT NULL;
CREATE INDEX listing_state_verified ON listing_state (user_id, verified_at NULLS FIRST)
    WHERE applied IS NOT NULL;
COMMENT ON TABLE listing_state IS
    'For each listing: what the supplier answered (observed), what the shop should show (desired), what the shop confirmed (applied).';
COMMENT ON COLUMN listing_state.desired_version IS 'Increases with each change of desired.';
COMMENT ON COLUMN listing_state.applied_version IS 'Version of desired that applied confirms.';
COMMENT ON COLUMN listing_state.shown IS 'What the shop showed when it was last read, as it was.';
COMMENT ON COLUMN listing_state.verified_at IS 'When the shop was last read back.';
COMMENT ON COLUMN listing_state.moved_at IS 'Last change of the price, or of the stock to zero; the guard against mass changes counts these.';
COMMENT ON COLUMN listing_state.held_reason IS 'Why a change waits for approval; NULL if none is held.';
COMMENT ON COLUMN listing_state.proposed IS 'What the shop would show if the held change were approved.';
COMMENT ON COLUMN listing_state.rejected IS 'Proposal that a person rejected last.';
COMMENT ON COLUMN listing_state.push_at IS 'When the shop is to be written; NULL if there is nothing to write.';
COMMENT ON COLUMN listing_state.push_failures IS 'Refused writes in a row.';

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
    former_status text CHECK (former_status IN ('ACTIVE', 'ARCHIVED', 'DRAFT', 'UNLISTED')),
    variants_count integer,
    tracked boolean,
    inventory_policy text CHECK (inventory_policy IN ('DENY', 'CONTINUE')),
    price numeric,
    cost_per_item numeric,
    currency text,
    inventory_quantity integer,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_id, sku),
    CONSTRAINT product_shop_sku_unique UNIQUE (user_id, shop_sku)
);
-- Few products sell at zero stock; an alert counts them every minute.
CREATE INDEX product_oversold ON product (user_id, sku)
    WHERE (NOT tracked OR inventory_policy = 'CONTINUE') AND status = 'ACTIVE';
COMMENT ON TABLE product IS 'Products in the shop, with the ids and values that the shop confirmed.';
COMMENT ON COLUMN product.sku IS 'The supplier''s SKU.';
COMMENT ON COLUMN product.shop_sku IS 'The SKU in the shop.';
COMMENT ON COLUMN product.status IS 'Status in the shop.';
COMMENT ON COLUMN product.tracked IS 'Whether the shop counts its stock; NULL until it was read.';
COMMENT ON COLUMN product.inventory_policy IS 'Whether the shop sells it at zero stock (CONTINUE); NULL until it was read.';
COMMENT ON COLUMN product.former_status IS 'Status before it was parked, restored by revive.';

CREATE TABLE product_staging (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    shop_sku text NOT NULL,
    batch_id uuid NOT NULL,
    status text NOT NULL DEFAULT 'requested'
        CHECK (status IN (
            'requested', 'normalized', 'created', 'published', 'blocked', 'failed')),
    reason text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    description_html text NOT NULL DEFAULT '',
    vendor text NOT NULL DEFAULT '',
    list_price numeric,
    net_price numeric,
    price numeric,
    cost_per_item numeric,
    currency text,
    inventory_quantity integer,
    inventory_status text,
    location_summary text,
    details jsonb NOT NULL DEFAULT '{}',
    shopify_product_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT product_staging_user_sku_unique UNIQUE (user_id, sku),
    CONSTRAINT product_staging_shop_sku_unique UNIQUE (user_id, shop_sku)
);
CREATE INDEX product_staging_batch ON product_staging (batch_id);
COMMENT ON TABLE product_staging IS 'Parts that are being published to a shop, and the result.';
COMMENT ON COLUMN product_staging.batch_id IS 'Publish request the part came with.';
COMMENT ON COLUMN product_staging.status IS
    'created is in the shop; published is also visible on its sales channels, as the shop confirmed.';
COMMENT ON COLUMN product_staging.reason IS 'Why it is blocked or failed.';
COMMENT ON COLUMN product_staging.description_html IS 'Made from the template; the supplier''s words are escaped.';
COMMENT ON COLUMN product_staging.details IS
    'Weight, origin, tariff code, condition, unit and image for the new product; left_out says what of them was not usable, and why.';

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
COMMENT ON TABLE boeing_raw_data IS 'The supplier''s reply for a part that is being published, as received.';

CREATE TABLE push_intent (
    id uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    user_id text NOT NULL,
    kind text NOT NULL
        CHECK (kind IN ('stock', 'activate', 'price', 'status', 'create', 'publish', 'bulk')),
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
COMMENT ON TABLE push_intent IS
    'Every write to a shop, stored before it is sent; the id is the idempotency key. An open one without a worker may have arrived: the shop is read back before the next write.';
COMMENT ON COLUMN push_intent.fence IS 'connected_accounts.push_fence under which it was written.';
COMMENT ON COLUMN push_intent.progress IS 'State of a bulk operation at the platform.';
COMMENT ON COLUMN push_intent.state IS 'void means that it was never sent, or replaced.';

-- Search has a table of its own, because every read moves a row of product_sync_schedule.
CREATE TABLE listing_search (
    user_id text NOT NULL,
    sku text NOT NULL,
    shop_sku text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    sku_lower text COLLATE "C" NOT NULL GENERATED ALWAYS AS (lower(sku)) STORED,
    sample_key bigint NOT NULL
        GENERATED ALWAYS AS (hashtextextended(user_id || chr(1) || sku, 0)) STORED,
    search_text text NOT NULL
        GENERATED ALWAYS AS (lower(sku || chr(1) || shop_sku || chr(1) || title)) STORED,
    PRIMARY KEY (user_id, sku),
    FOREIGN KEY (user_id, sku) REFERENCES product_sync_schedule (user_id, sku)
        ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE INDEX listing_search_sample ON listing_search (sample_key);
CREATE INDEX listing_search_seller_sample ON listing_search (user_id, sample_key, sku);
CREATE INDEX listing_search_sku ON listing_search (sku_lower);
CREATE INDEX listing_search_seller_sku ON listing_search (user_id, sku_lower);
COMMENT ON TABLE listing_search IS 'Searchable text of each listing, kept up to date by triggers.';
COMMENT ON COLUMN listing_search.sample_key IS 'A hash: any range of it is a fair sample of the listings.';

CREATE FUNCTION listing_trigrams(search_text text, user_id text) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_remove(array_append(array_agg(hashtext(substr(search_text, start, 3))),
                                     hashtext(chr(1) || user_id)), NULL)
    FROM generate_series(1, length(search_text) - 2) AS start
$$;
COMMENT ON FUNCTION listing_trigrams IS 'Hashes of all three-character pieces of a text, and of the seller.';
-- A search reads the pending list row by row, so it is kept small.
CREATE INDEX listing_search_trigrams
    ON listing_search USING gin (listing_trigrams(search_text, user_id))
    WITH (gin_pending_list_limit = 256);

CREATE FUNCTION listing_search_matches(piece text, seller text) RETURNS SETOF listing_search
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT * FROM listing_search
    WHERE listing_trigrams(search_text, user_id) @> listing_trigrams(piece, seller)
      AND strpos(search_text, piece) > 0
      AND user_id = coalesce(seller, user_id)
      AND (current_setting('role') <> 'headway_seller'
           OR user_id = current_setting('headway.seller', true))
$$;
COMMENT ON FUNCTION listing_search_matches IS
    'Listings whose text contains a piece. Under row-level security the trigram index cannot be used; this function can use it, and applies the seller condition itself.';
REVOKE EXECUTE ON FUNCTION listing_search_matches FROM PUBLIC;

CREATE FUNCTION listing_search_enter() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO listing_search (user_id, sku, shop_sku, title)
    SELECT entered.user_id, entered.sku, coalesce(product.shop_sku, staging.shop_sku, ''),
        coalesce(nullif(product.title, ''), staging.title, '')
    FROM entered LEFT JOIN product USING (user_id, sku)
        LEFT JOIN product_staging AS staging USING (user_id, sku);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION listing_search_enter IS 'Add new listings to listing_search.';
CREATE TRIGGER listing_search_enter AFTER INSERT ON product_sync_schedule
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION listing_search_enter();

CREATE FUNCTION listing_search_rename() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    key record := coalesce(new, old);
BEGIN
    UPDATE listing_search AS row SET shop_sku = names.shop_sku, title = names.title
    FROM (SELECT coalesce(product.shop_sku, staging.shop_sku, '') AS shop_sku,
              coalesce(nullif(product.title, ''), staging.title, '') AS title
          FROM (SELECT) AS one
          LEFT JOIN product ON product.user_id = key.user_id AND product.sku = key.sku
          LEFT JOIN product_staging AS staging
              ON staging.user_id = key.user_id AND staging.sku = key.sku) AS names
    WHERE row.user_id = key.user_id AND row.sku = key.sku
      AND (row.shop_sku, row.title) <> (names.shop_sku, names.title);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION listing_search_rename IS 'Copy a changed title or shop SKU to listing_search.';
CREATE TRIGGER listing_search_rename
    AFTER INSERT OR DELETE OR UPDATE OF user_id, sku, shop_sku, title ON product
    FOR EACH ROW EXECUTE FUNCTION listing_search_rename();
CREATE TRIGGER listing_search_rename
    AFTER INSERT OR DELETE OR UPDATE OF user_id, sku, shop_sku, title ON product_staging
    FOR EACH ROW EXECUTE FUNCTION listing_search_rename();


-- ==================================================================================================
-- Accounts: jobs, and the data they pull
-- ==================================================================================================

CREATE TABLE sync_jobs (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    user_id text NOT NULL,
    platform text NOT NULL CHECK (platform IN ('shopify', 'etsy', 'printify')),
    kind text NOT NULL CHECK (kind IN ('orders', 'listings', 'customers', 'payments')),
    job_type text NOT NULL CHECK (job_type IN ('backfill', 'incremental', 'webhook_triggered')),
    is_backfill boolean NOT NULL GENERATED ALWAYS AS (job_type = 'backfill') STORED,

    -- priority and due time
    tier text NOT NULL DEFAULT 'free' CHECK (tier IN ('free', 'starter', 'growth', 'pro')),
    score smallint NOT NULL CHECK (score BETWEEN 11 AND 43),
    status text NOT NULL DEFAULT 'queued' CHECK (status IN (
        'queued', 'running', 'completed', 'plan_limit_reached', 'failed', 'dead', 'cancelled')),
    next_run_at timestamptz,
    woken_at timestamptz,
    wait_reason text NOT NULL DEFAULT '',

    -- position and lease
    cursor jsonb NOT NULL DEFAULT '{}',
    fence bigint NOT NULL DEFAULT 0,
    lease_owner text,
    lease_until timestamptz,
    started_at timestamptz,
    completed_at timestamptz,

    -- outcome
    retry_count integer NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    rescue_count smallint NOT NULL DEFAULT 0,
    last_error text,
    revive_at timestamptz,
    calls_estimate double precision NOT NULL DEFAULT 0 CHECK (calls_estimate >= 0),
    run_calls integer NOT NULL DEFAULT 0 CHECK (run_calls >= 0),
    queries_used bigint NOT NULL DEFAULT 0 CHECK (queries_used >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT sync_jobs_account_kind_unique UNIQUE (account_id, kind, is_backfill),
    CONSTRAINT sync_jobs_lease CHECK (
        (status = 'running') = (lease_until IS NOT NULL)
        AND (lease_until IS NULL) = (lease_owner IS NULL)
    ),
    -- A job that waits has a due time; a finished backfill, dead and cancelled jobs have none.
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
-- The claim: one short range scan per platform and score.
CREATE INDEX sync_jobs_claim ON sync_jobs (platform, score, next_run_at) WHERE status = 'queued';
CREATE INDEX sync_jobs_repeat ON sync_jobs (next_run_at)
    WHERE status IN ('completed', 'failed', 'plan_limit_reached') AND next_run_at IS NOT NULL;
-- At most one running job per account.
CREATE UNIQUE INDEX sync_jobs_running ON sync_jobs (account_id) WHERE status = 'running';
CREATE INDEX sync_jobs_lease_until ON sync_jobs (lease_until) WHERE status = 'running';
CREATE INDEX sync_jobs_seller ON sync_jobs (user_id, platform);
CREATE INDEX sync_jobs_stopped ON sync_jobs (status, updated_at DESC)
    WHERE status IN ('dead', 'cancelled');
COMMENT ON TABLE sync_jobs IS
    'One account and one kind of data. One job pulls what is new, again and again; another pulls history once (backfill).';
COMMENT ON COLUMN sync_jobs.revive_at IS
    'When a job that died of an outage is tried again; kept until a run is completed. NULL: a person revives it.';
COMMENT ON COLUMN sync_jobs.score IS 'Priority: tier (1 to 4) times ten plus type (1 backfill, 2 incremental, 3 webhook).';
COMMENT ON COLUMN sync_jobs.next_run_at IS 'When the job is due.';
COMMENT ON COLUMN sync_jobs.woken_at IS 'A webhook arrived during a run: the job runs again at once.';
COMMENT ON COLUMN sync_jobs.wait_reason IS 'Why the job was put back, in words.';
COMMENT ON COLUMN sync_jobs.cursor IS 'Position: what lasts between runs, and the pages of the run in progress.';
COMMENT ON COLUMN sync_jobs.fence IS 'Fencing number: increases with each claim, and a write with an older number is refused.';
COMMENT ON COLUMN sync_jobs.retry_count IS 'Failures in a row.';
COMMENT ON COLUMN sync_jobs.rescue_count IS 'Times in a row that a worker was lost with this job before it stored a page.';
COMMENT ON COLUMN sync_jobs.calls_estimate IS 'Calls a run takes, learned from past runs; the next run reserves as many.';
COMMENT ON COLUMN sync_jobs.run_calls IS 'Calls of the run in progress.';
COMMENT ON COLUMN sync_jobs.queries_used IS 'Calls of all runs.';

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
    total numeric,
    current_total numeric,
    subtotal numeric,
    shipping numeric,
    tax numeric,
    discount numeric,
    customer_id text,
    placed_at timestamptz NOT NULL,
    modified_at timestamptz,
    cancelled_at timestamptz,
    checked_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, external_id)
);
CREATE INDEX orders_placed ON orders (user_id, placed_at DESC);
CREATE INDEX orders_newest ON orders (account_id, placed_at DESC);
CREATE INDEX orders_open ON orders (account_id, checked_at) WHERE is_open;
COMMENT ON TABLE orders IS 'Orders as pulled from the platforms.';
COMMENT ON COLUMN orders.external_id IS 'The platform''s id.';
COMMENT ON COLUMN orders.number IS 'Order number as the buyer sees it.';
COMMENT ON COLUMN orders.total IS 'Amount as ordered, null if the platform did not report it; refunds and edits do not change it.';
COMMENT ON COLUMN orders.current_total IS 'Amount after edits and returns, where the platform reports it; else null.';
COMMENT ON COLUMN orders.modified_at IS 'Last change according to the platform.';
COMMENT ON COLUMN orders.checked_at IS 'When Headway last read it, changed or not; open orders are read again.';

CREATE TABLE line_items (
    account_id uuid NOT NULL,
    order_id text NOT NULL,
    external_id text NOT NULL,
    user_id text NOT NULL,
    listing_id text,
    sku text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    quantity integer NOT NULL,
    current_quantity integer,
    price numeric,
    currency text NOT NULL,
    PRIMARY KEY (account_id, order_id, external_id),
    FOREIGN KEY (account_id, order_id) REFERENCES orders (account_id, external_id)
        ON DELETE CASCADE
);
CREATE INDEX line_items_sku ON line_items (user_id, sku);
CREATE INDEX line_items_external ON line_items (account_id, external_id);
COMMENT ON TABLE line_items IS 'Lines of an order.';
COMMENT ON COLUMN line_items.quantity IS 'Pieces as ordered.';
COMMENT ON COLUMN line_items.current_quantity IS 'Pieces after edits and returns, where the platform reports it; else null.';
COMMENT ON COLUMN line_items.price IS 'Price of one piece; null if the platform did not report it.';

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
COMMENT ON TABLE shipments IS 'Shipments of an order.';
COMMENT ON COLUMN shipments.tracking IS 'Tracking number.';

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
COMMENT ON TABLE refunds IS 'Refunds of an order.';

CREATE TABLE listings (
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    external_id text NOT NULL,
    user_id text NOT NULL,
    platform text NOT NULL,
    sku text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
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
COMMENT ON TABLE listings IS 'What a seller offers on a platform, as pulled from it.';
COMMENT ON COLUMN listings.sku IS 'The first, if the platform shows several for one listing.';
COMMENT ON COLUMN listings.state IS
    'The platform''s word, or removed once two complete pulls did not contain it.';

CREATE TABLE listing_walks (
    account_id uuid PRIMARY KEY REFERENCES connected_accounts (id) ON DELETE CASCADE,
    user_id text NOT NULL,
    walks timestamptz[] NOT NULL,
    known integer NOT NULL DEFAULT 0,
    missing integer NOT NULL DEFAULT 0,
    held_reason text,
    held_since timestamptz,
    updated_at timestamptz NOT NULL,
    CHECK ((held_reason IS NULL) = (held_since IS NULL))
);
CREATE INDEX listing_walks_held ON listing_walks (held_since) WHERE held_reason IS NOT NULL;
COMMENT ON TABLE listing_walks IS
    'What complete pulls of an account''s listings show: the evidence that listings are removed.';
COMMENT ON COLUMN listing_walks.walks IS 'When the last complete pulls began, hours apart, the oldest first.';
COMMENT ON COLUMN listing_walks.known IS 'Listings that were not removed at the last pull.';
COMMENT ON COLUMN listing_walks.missing IS 'Of these, how many the last two pulls did not contain.';
COMMENT ON COLUMN listing_walks.held_reason IS 'Why they are not removed yet, in words.';

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
COMMENT ON TABLE customers IS 'Buyers, as pulled from the platforms.';

CREATE TABLE payments (
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    external_id text NOT NULL,
    user_id text NOT NULL,
    platform text NOT NULL,
    order_id text,
    line_item_id text,
    kind text NOT NULL,
    status text NOT NULL DEFAULT '',
    reference_type text NOT NULL DEFAULT '',
    reference_id text,
    is_transfer boolean NOT NULL DEFAULT false,
    amount numeric NOT NULL,
    currency text NOT NULL,
    paid_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, external_id)
);
CREATE INDEX payments_paid ON payments (user_id, paid_at DESC);
CREATE INDEX payments_unjoined ON payments (account_id, line_item_id)
    WHERE order_id IS NULL AND line_item_id IS NOT NULL;
COMMENT ON TABLE payments IS 'Entries of the platform''s ledger: payments, fees, payouts.';
COMMENT ON COLUMN payments.order_id IS 'The order that it is about, if that is known.';
COMMENT ON COLUMN payments.line_item_id IS 'The line of an order that it is about; the order is found by it.';
COMMENT ON COLUMN payments.reference_type IS 'What it is about, in the platform''s words, such as shop_payment.';
COMMENT ON COLUMN payments.is_transfer IS 'A payout to the seller''s bank, or its return: leave it out of sums of income and fees.';
COMMENT ON COLUMN payments.amount IS 'Positive if the seller receives it, negative if it is taken.';

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
COMMENT ON TABLE unreadable_records IS
    'Rows of a page that could not be read, as received. A row is deleted when a later pull reads the record.';

CREATE TABLE webhook_deliveries (
    platform text NOT NULL,
    delivery_id text NOT NULL,
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    topic text NOT NULL,
    kind text NOT NULL,
    external_id text,
    received_at timestamptz NOT NULL,
    handled_at timestamptz,
    PRIMARY KEY (platform, delivery_id)
);
CREATE INDEX webhook_deliveries_open ON webhook_deliveries (account_id, kind, received_at)
    WHERE handled_at IS NULL;
CREATE INDEX webhook_deliveries_time ON webhook_deliveries (received_at);
COMMENT ON TABLE webhook_deliveries IS 'Verified webhooks. The platform''s delivery id detects replays.';
COMMENT ON COLUMN webhook_deliveries.external_id IS 'Record the webhook is about, if it names one.';
COMMENT ON COLUMN webhook_deliveries.handled_at IS 'When a job read that record; NULL until then.';

CREATE TABLE oauth_flows (
    state text PRIMARY KEY,
    platform text NOT NULL,
    user_id text NOT NULL,
    shop text NOT NULL DEFAULT '',
    verifier bytea NOT NULL,
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE oauth_flows IS 'OAuth authorizations in progress: a person is on the platform''s consent page.';
COMMENT ON COLUMN oauth_flows.verifier IS 'PKCE code verifier, encrypted.';


-- ==================================================================================================
-- Pauses
-- ==================================================================================================

CREATE TABLE pauses (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    kind text NOT NULL CHECK (kind IN ('all', 'supplier', 'seller', 'listing')),
    supplier text,
    user_id text,
    sku text,
    -- A later date could be written but not read back by Python.
    until timestamptz CHECK (until < '10000-01-01 00:00+00'),
    reason text NOT NULL DEFAULT '',
    actor text NOT NULL DEFAULT '',
    is_imposed boolean NOT NULL
        DEFAULT (coalesce(current_setting('headway.seller', true), '') = ''),
    is_resumed boolean NOT NULL DEFAULT false,
    marked_to text NOT NULL DEFAULT '',
    marked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pauses_target_unique UNIQUE NULLS NOT DISTINCT (kind, user_id, sku, supplier),
    CONSTRAINT pauses_target CHECK (
        (user_id IS NOT NULL) = (kind IN ('seller', 'listing'))
        AND (sku IS NOT NULL) = (kind = 'listing')
    ),
    CONSTRAINT pauses_supplier CHECK (supplier IS NULL OR kind = 'supplier'),
    CONSTRAINT pauses_resumed CHECK (NOT is_resumed OR until IS NOT NULL)
);
CREATE INDEX pauses_unmarked ON pauses (user_id) WHERE marked_at IS NULL;
COMMENT ON TABLE pauses IS 'What a person has paused, one row per target; pausing it again replaces the row.';
COMMENT ON COLUMN pauses.supplier IS 'One supplier; NULL with kind supplier means all of them.';
COMMENT ON COLUMN pauses.until IS 'When it ends by itself; NULL means when it is resumed.';
COMMENT ON COLUMN pauses.is_imposed IS 'An operator paused it: the seller cannot end or shorten it.';
COMMENT ON COLUMN pauses.is_resumed IS 'Someone ended it early; the row is deleted once its listings are unmarked.';
COMMENT ON COLUMN pauses.marked_to IS 'Last SKU up to which product_sync_schedule.is_paused is set.';
COMMENT ON COLUMN pauses.marked_at IS 'When all listings were marked.';


-- ==================================================================================================
-- Monitoring
-- ==================================================================================================

CREATE TABLE freshness_samples (
    at timestamptz NOT NULL,
    tier text NOT NULL CHECK (tier IN ('free', 'starter', 'growth', 'pro')),
    total integer NOT NULL,
    parked integer NOT NULL,
    paused integer NOT NULL,
    fresh integer NOT NULL,
    stale integer NOT NULL,
    unread integer NOT NULL,
    kept integer NOT NULL,
    promise_min double precision NOT NULL,
    oldest_read_at timestamptz,
    PRIMARY KEY (at, tier)
);
COMMENT ON TABLE freshness_samples IS 'Number of fresh and stale listings every five minutes, by tier.';
COMMENT ON COLUMN freshness_samples.kept IS 'Listings read within the promised age.';
COMMENT ON COLUMN freshness_samples.promise_min IS 'The promised age in minutes at that time.';

CREATE TABLE alert_states (
    name text NOT NULL,
    subject text NOT NULL,
    severity text NOT NULL CHECK (severity IN ('critical', 'warning', 'notice')),
    sentence text NOT NULL,
    link text NOT NULL,
    count bigint NOT NULL,
    seller text,
    since timestamptz NOT NULL,
    well_since timestamptz,
    fired_at timestamptz,
    resolved_at timestamptz,
    repeats smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (name, subject),
    CONSTRAINT alert_states_order CHECK (resolved_at IS NULL OR fired_at IS NOT NULL)
);
COMMENT ON TABLE alert_states IS
    'Alerts that are pending, firing or resolved. A row that never fired is deleted when its condition ends. Readable by operators only.';
COMMENT ON COLUMN alert_states.subject IS 'What the alert is about: a supplier, a shop, a limit key.';
COMMENT ON COLUMN alert_states.sentence IS 'The message.';
COMMENT ON COLUMN alert_states.seller IS 'Seller concerned, if it is one.';
COMMENT ON COLUMN alert_states.since IS 'Since when the condition has held without interruption.';
COMMENT ON COLUMN alert_states.well_since IS 'Since when the condition no longer holds.';
COMMENT ON COLUMN alert_states.repeats IS
    'How often it fired again within a day of its end; each time it must be clear four times as long to resolve.';

CREATE TABLE notices (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    topic text NOT NULL CHECK (topic IN (
        'job_dead', 'account_disconnected', 'token_expiring', 'price_held')),
    subject text NOT NULL,
    text text NOT NULL,
    created_at timestamptz NOT NULL,
    delivered_at timestamptz,
    CONSTRAINT notices_unique UNIQUE (topic, subject)
);
CREATE INDEX notices_seller ON notices (user_id, created_at DESC);
CREATE INDEX notices_time ON notices (created_at DESC);
CREATE INDEX notices_undelivered ON notices (created_at) WHERE delivered_at IS NULL;
COMMENT ON TABLE notices IS 'Messages to a seller.';
COMMENT ON COLUMN notices.subject IS 'Job, account or token, and since when; the same message is stored once.';

CREATE TABLE outbox (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    key text NOT NULL CONSTRAINT outbox_key_unique UNIQUE,
    severity text NOT NULL CHECK (severity IN ('critical', 'warning', 'notice')),
    title text NOT NULL,
    body text NOT NULL,
    notice_id uuid REFERENCES notices (id) ON DELETE SET NULL,
    created_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    lease_until timestamptz,
    tries integer NOT NULL DEFAULT 0,
    delivered text[] NOT NULL DEFAULT '{}',
    error text NOT NULL DEFAULT '',
    ended_at timestamptz,
    is_sent boolean NOT NULL DEFAULT false
);
CREATE INDEX outbox_due ON outbox (due_at) WHERE ended_at IS NULL;
CREATE INDEX outbox_notice ON outbox (notice_id) WHERE notice_id IS NOT NULL;
COMMENT ON TABLE outbox IS 'Notifications to send, stored in the transaction of the event they report.';
COMMENT ON COLUMN outbox.key IS 'Subject and time of the event, so that it is reported once.';
COMMENT ON COLUMN outbox.tries IS 'Attempts to send; also the fencing number of the sender''s lease.';
COMMENT ON COLUMN outbox.delivered IS 'Digests of the addresses that have received it.';

CREATE TABLE processes (
    id uuid PRIMARY KEY,
    verb text NOT NULL CHECK (verb IN ('run', 'worker', 'api')),
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    migrations_known integer NOT NULL,
    settings jsonb NOT NULL,
    clock_ahead_ms double precision NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE processes IS 'Processes on this database; each reports itself every 30 seconds.';
COMMENT ON COLUMN processes.migrations_known IS 'Newest migration its code knows.';
COMMENT ON COLUMN processes.settings IS 'Digests of the settings that must be equal everywhere, by name.';
COMMENT ON COLUMN processes.clock_ahead_ms IS 'Its clock minus the database server''s.';
COMMENT ON COLUMN processes.seen_at IS 'Last report, by the database server''s clock.';


-- ==================================================================================================
-- Access
-- ==================================================================================================

CREATE TABLE access_keys (
    id uuid PRIMARY KEY,
    name text NOT NULL CHECK (name <> ''),
    prefix text NOT NULL,
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    role text NOT NULL CHECK (role IN ('operator', 'seller', 'reader')),
    user_id text CHECK (user_id <> ''),
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT access_keys_seller CHECK (CASE role
        WHEN 'seller' THEN user_id IS NOT NULL
        WHEN 'operator' THEN user_id IS NULL
        ELSE true END)
);
-- The audit log shows names, so two valid keys never share one.
CREATE UNIQUE INDEX access_keys_name ON access_keys (name) WHERE revoked_at IS NULL;
COMMENT ON TABLE access_keys IS 'API keys, stored as digests.';
COMMENT ON COLUMN access_keys.prefix IS 'First characters of the key, to recognize it.';
COMMENT ON COLUMN access_keys.user_id IS 'Seller the key is limited to; NULL means all.';

CREATE TABLE login_links (
    hash bytea PRIMARY KEY CHECK (length(hash) = 32),
    name text NOT NULL CHECK (name <> ''),
    role text NOT NULL CHECK (role IN ('operator', 'seller', 'reader')),
    user_id text CHECK (user_id <> ''),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT login_links_seller CHECK (CASE role
        WHEN 'seller' THEN user_id IS NOT NULL
        WHEN 'operator' THEN user_id IS NULL
        ELSE true END)
);
COMMENT ON TABLE login_links IS 'One-time links that log a browser in, stored as digests.';

CREATE TABLE sessions (
    id uuid PRIMARY KEY,
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    key_id uuid REFERENCES access_keys (id) ON DELETE CASCADE,
    name text NOT NULL CHECK (name <> ''),
    role text NOT NULL CHECK (role IN ('operator', 'seller', 'reader')),
    user_id text CHECK (user_id <> ''),
    address text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    CONSTRAINT sessions_seller CHECK (CASE role
        WHEN 'seller' THEN user_id IS NOT NULL
        WHEN 'operator' THEN user_id IS NULL
        ELSE true END)
);
CREATE INDEX sessions_expiry ON sessions (expires_at);
CREATE INDEX sessions_key ON sessions (key_id) WHERE key_id IS NOT NULL;
COMMENT ON TABLE sessions IS 'Browsers that are logged in, by a key or a link; a session ends with its key.';
COMMENT ON COLUMN sessions.address IS 'Network address the browser logged in from.';

CREATE TABLE login_attempts (
    address text PRIMARY KEY,
    attempts integer NOT NULL CHECK (attempts > 0),
    begun_at timestamptz NOT NULL
);
COMMENT ON TABLE login_attempts IS 'Failed logins by network address, counted by all processes together.';
COMMENT ON COLUMN login_attempts.begun_at IS 'Start of the window in which they are counted.';

CREATE TABLE idempotency (
    principal text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
    state text NOT NULL DEFAULT 'begun' CHECK (state IN ('begun', 'done')),
    owner uuid NOT NULL,
    lease_until timestamptz NOT NULL,
    status integer,
    content_type text,
    body bytea,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (principal, key),
    CONSTRAINT idempotency_response CHECK ((state = 'done') = (status IS NOT NULL)
        AND (state = 'done') = (body IS NOT NULL))
);
CREATE INDEX idempotency_time ON idempotency (created_at);
COMMENT ON TABLE idempotency IS 'Requests with an Idempotency-Key, and their responses.';
COMMENT ON COLUMN idempotency.fingerprint IS 'Digest of method, path and body: the same key with another request is refused.';


-- ==================================================================================================
-- Dispatch and background runs
-- ==================================================================================================

CREATE TABLE dispatch_leases (
    verb text NOT NULL CHECK (verb IN ('tick', 'fetch', 'push', 'pull')),
    subject text NOT NULL,
    fence bigint NOT NULL DEFAULT 1,
    until timestamptz NOT NULL,
    carried jsonb,
    PRIMARY KEY (verb, subject)
) WITH (fillfactor = 50);
CREATE INDEX dispatch_leases_carried ON dispatch_leases (until) WHERE carried IS NOT NULL;
COMMENT ON TABLE dispatch_leases IS
    'The right to have one message on the broker, or one worker, for one subject: a supplier, a shop, one of a platform''s places for pulls.';
COMMENT ON COLUMN dispatch_leases.fence IS 'A worker that takes the lease increases it, so that of any number of messages one is handled.';
COMMENT ON COLUMN dispatch_leases.until IS 'When the lease expires, or when the subject is looked at again.';
COMMENT ON COLUMN dispatch_leases.carried IS 'State the last worker left for the next: a permit it waits for, a job half done.';

CREATE TABLE runs (
    id uuid PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('simulate', 'plan')),
    request jsonb NOT NULL,
    status text NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    progress double precision NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
    result jsonb,
    error text NOT NULL DEFAULT '',
    output text NOT NULL DEFAULT '',
    exit_code integer,
    actor text NOT NULL DEFAULT '',
    lease_owner text,
    lease_until timestamptz,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    CONSTRAINT runs_lease CHECK (
        (status = 'running') = (lease_until IS NOT NULL)
        AND (lease_until IS NULL) = (lease_owner IS NULL)
    )
);
CREATE INDEX runs_newest ON runs (created_at DESC, id DESC);
CREATE INDEX runs_open ON runs (created_at, id) WHERE status IN ('queued', 'running');
COMMENT ON TABLE runs IS 'Simulations and plans requested over the API. One server runs each, in a process of its own.';
COMMENT ON COLUMN runs.output IS 'What the command printed besides its result, such as broken laws.';
COMMENT ON COLUMN runs.exit_code IS 'Exit code of the command.';


-- ==================================================================================================
-- Tenant isolation
-- ==================================================================================================

-- Requests on behalf of one seller run under this role. Roles belong to the whole server: another
-- database may have created it, or be creating it at this moment.
DO $$
DECLARE
    may_set text := CASE WHEN current_setting('server_version_num')::integer >= 160000
        THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'headway_seller') THEN
        BEGIN
            CREATE ROLE headway_seller NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END IF;
    IF NOT pg_has_role(session_user, 'headway_seller', may_set) THEN
        BEGIN
            EXECUTE format('GRANT headway_seller TO %I', session_user);
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    -- HW001: a person must do something before the migration can be applied.
    RAISE EXCEPTION USING ERRCODE = 'HW001', MESSAGE = format(
        'this user may not make the role headway_seller; let an administrator run:'
        ' CREATE ROLE headway_seller NOLOGIN; GRANT headway_seller TO %I;'
        ' (the first only if there is no such role)', session_user);
END $$;

-- Under that role only rows of the seller named by the transaction exist. The owner of the tables,
-- which is the engine, is not restricted.
DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY[
        'sync_audit_log', 'sync_audit_log_other',
        'profiles', 'connected_accounts',
        'product_sync_schedule',
        'listing_state', 'product', 'product_staging', 'boeing_raw_data', 'push_intent',
        'listing_search',
        'sync_jobs', 'orders', 'line_items', 'shipments', 'refunds', 'listings', 'customers',
        'payments', 'unreadable_records', 'listing_walks', 'oauth_flows',
        'pauses', 'notices',
        'access_keys', 'login_links', 'sessions'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY seller ON %I TO headway_seller'
            ' USING (user_id = (SELECT current_setting(''headway.seller'', true)))'
            ' WITH CHECK (user_id = (SELECT current_setting(''headway.seller'', true)))',
            table_name);
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO headway_seller', current_schema());
END $$;
-- All sellers see a pause of everything; a pause of one supplier, those who buy there.
CREATE POLICY everybody ON pauses FOR SELECT TO headway_seller USING (
    user_id IS NULL AND (supplier IS NULL OR supplier = coalesce((
        SELECT profiles.supplier FROM profiles
        WHERE profiles.user_id = current_setting('headway.seller', true)), 'main'))
);

GRANT SELECT ON sync_audit_log, profiles, connected_accounts, product_sync_schedule, listing_state,
    product, product_staging, push_intent, listing_search, sync_jobs, orders, line_items, shipments,
    refunds, listings, customers, payments, unreadable_records, listing_walks, pauses, notices
    TO headway_seller;
GRANT UPDATE ON product_sync_schedule, listing_state, sync_jobs, listing_walks TO headway_seller;
GRANT UPDATE (state, updated_at) ON listings TO headway_seller;
GRANT UPDATE (push_started_at, locations_at, updated_at) ON connected_accounts TO headway_seller;
GRANT INSERT ON sync_audit_log TO headway_seller;
GRANT INSERT, UPDATE, DELETE ON product_staging, pauses TO headway_seller;
-- Plan, supplier and pricing are the operator's to set.
GRANT INSERT (user_id, mass_approved_until, created_at, updated_at),
    UPDATE (mass_approved_until, updated_at) ON profiles TO headway_seller;
GRANT EXECUTE ON FUNCTION listing_search_matches TO headway_seller;

-- The partitions of this month and the next; the engine adds later ones.
SELECT make_history_month(now()), make_history_month(now() + interval '1 month');
