-- pre: old processes write none of these rows, and ask nobody whether a record was erased: end them before you erase.
-- What was erased on request, without the data itself: hashes keep it from coming back.
CREATE TABLE erasure_salt (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    salt bytea NOT NULL
);
COMMENT ON TABLE erasure_salt IS
    'One row: random bytes that every hash of an erased identifier begins with, so that hashes of two databases differ.';
INSERT INTO erasure_salt (salt)
VALUES (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));

CREATE FUNCTION erased_hash(kind text, platform text, identifier text) RETURNS bytea
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT sha256(salt || convert_to(concat_ws(chr(31), kind, platform, identifier), 'UTF8'))
    FROM erasure_salt
$$;
COMMENT ON FUNCTION erased_hash IS 'The hash by which an erased seller, shop, customer, address or order is known again.';
REVOKE EXECUTE ON FUNCTION erased_hash FROM PUBLIC;

CREATE TABLE erasures (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    kind text NOT NULL CHECK (kind IN ('seller', 'account', 'customer')),
    status text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'sweeping', 'done')),
    cause text NOT NULL,
    actor text NOT NULL DEFAULT '',
    user_id text,
    platform text,
    subject jsonb,
    subject_hash bytea NOT NULL,
    counts jsonb NOT NULL DEFAULT '{}',
    requested_at timestamptz NOT NULL,
    erased_at timestamptz,
    sweep_at timestamptz,
    done_at timestamptz,
    CHECK ((status = 'done') = (subject IS NULL))
);
CREATE INDEX erasures_open ON erasures (requested_at) WHERE status <> 'done';
CREATE INDEX erasures_subject ON erasures (subject_hash);
CREATE INDEX erasures_seller ON erasures (user_id, requested_at DESC);
COMMENT ON TABLE erasures IS 'Erasures on request: what was erased, when, and who asked for it. When one is done, its row holds hashes and numbers only.';
COMMENT ON COLUMN erasures.kind IS 'What was erased.';
COMMENT ON COLUMN erasures.status IS
    'running: rows are being deleted; sweeping: all are, and workers that may still write end; done: proven.';
COMMENT ON COLUMN erasures.cause IS 'person, or the topic of the webhook that asked for it.';
COMMENT ON COLUMN erasures.actor IS 'Name of the key, session or command that asked for it; empty for a webhook.';
COMMENT ON COLUMN erasures.user_id IS 'The seller, as long as the seller is not erased.';
COMMENT ON COLUMN erasures.platform IS 'The platform of the account or customer.';
COMMENT ON COLUMN erasures.subject IS 'Names and ids of what is erased, in clear, until it is done; then NULL.';
COMMENT ON COLUMN erasures.subject_hash IS 'Hash of the seller, shop or customer.';
COMMENT ON COLUMN erasures.counts IS 'Rows that were deleted or emptied, by table.';
COMMENT ON COLUMN erasures.erased_at IS 'When the last row was deleted.';
COMMENT ON COLUMN erasures.sweep_at IS 'From when on no earlier worker can still write; then it is looked for once more.';

CREATE TABLE tombstones (
    erasure_id uuid NOT NULL REFERENCES erasures (id) ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('seller', 'account', 'customer', 'email', 'order')),
    platform text NOT NULL DEFAULT '',
    account_id uuid,
    shop_hash bytea,
    hash bytea NOT NULL,
    lifted_at timestamptz,
    UNIQUE NULLS NOT DISTINCT (erasure_id, kind, account_id, hash)
);
CREATE INDEX tombstones_hash ON tombstones (hash, shop_hash);
CREATE INDEX tombstones_shop ON tombstones (shop_hash);
CREATE INDEX tombstones_account ON tombstones (account_id) WHERE account_id IS NOT NULL;
COMMENT ON TABLE tombstones IS 'Hashes of what was erased: pulls, webhooks and imports leave out what has one.';
COMMENT ON COLUMN tombstones.kind IS 'What the hash is of; an order is one of an erased customer.';
COMMENT ON COLUMN tombstones.account_id IS 'The account (connected_accounts.id, while there is one).';
COMMENT ON COLUMN tombstones.shop_hash IS 'Hash of the account''s shop; NULL for a seller.';
COMMENT ON COLUMN tombstones.hash IS 'erased_hash(kind, platform, identifier).';
COMMENT ON COLUMN tombstones.lifted_at IS 'When a person connected the shop, or the seller, again on purpose.';

-- A seller or shop that was erased is not stored again by accident, by any program. Hot
-- tables are checked by their first row: nothing of a seller is stored before one of these.
CREATE FUNCTION refuse_erased_seller() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM tombstones WHERE kind = 'seller' AND lifted_at IS NULL) AND EXISTS (
        SELECT FROM (SELECT DISTINCT user_id FROM entered) AS entered JOIN tombstones
            ON tombstones.hash = erased_hash('seller', '', entered.user_id)
        WHERE tombstones.kind = 'seller' AND tombstones.lifted_at IS NULL
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = 'the seller was erased';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION refuse_erased_seller IS 'Refuse rows of a seller who was erased, until the seller is connected again on purpose.';
CREATE FUNCTION refuse_erased_shop() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (
        SELECT FROM entered JOIN tombstones
            ON tombstones.hash = erased_hash('account', entered.platform, entered.shop)
        WHERE tombstones.kind = 'account' AND tombstones.lifted_at IS NULL
    ) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW002', MESSAGE = 'the shop was erased';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION refuse_erased_shop IS 'Refuse a shop that was erased, until it is connected again on purpose.';
CREATE TRIGGER refuse_erased_seller AFTER INSERT ON profiles
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION refuse_erased_seller();
CREATE TRIGGER refuse_erased_seller AFTER INSERT ON connected_accounts
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION refuse_erased_seller();
CREATE TRIGGER refuse_erased_seller AFTER INSERT ON product_sync_schedule
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION refuse_erased_seller();
CREATE TRIGGER refuse_erased_seller AFTER INSERT ON product_staging
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION refuse_erased_seller();
CREATE TRIGGER refuse_erased_seller AFTER INSERT ON access_keys
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION refuse_erased_seller();
CREATE TRIGGER refuse_erased_shop AFTER INSERT ON connected_accounts
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION refuse_erased_shop();

-- Requests of customers for their data, with the day by which they must be answered.
CREATE TABLE privacy_requests (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    user_id text NOT NULL,
    platform text NOT NULL,
    customer_id text NOT NULL,
    order_ids text[] NOT NULL DEFAULT '{}',
    requested_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    exported_at timestamptz,
    done_at timestamptz,
    actor text
);
CREATE INDEX privacy_requests_open ON privacy_requests (due_at) WHERE done_at IS NULL;
CREATE INDEX privacy_requests_seller ON privacy_requests (user_id, requested_at DESC);
CREATE INDEX privacy_requests_account ON privacy_requests (account_id);
COMMENT ON TABLE privacy_requests IS 'Customers who want to know what is stored of them; a person answers each in time.';
COMMENT ON COLUMN privacy_requests.customer_id IS 'The customer (customers.external_id).';
COMMENT ON COLUMN privacy_requests.order_ids IS 'Orders that the request names besides the customer''s own.';
COMMENT ON COLUMN privacy_requests.due_at IS 'By when it must be answered: 30 days after it came.';
COMMENT ON COLUMN privacy_requests.exported_at IS 'When the customer''s data was last exported for it.';
COMMENT ON COLUMN privacy_requests.done_at IS 'When a person marked it as answered.';
COMMENT ON COLUMN privacy_requests.actor IS 'Who marked it as answered.';
INSERT INTO privacy_requests
    (account_id, user_id, platform, customer_id, requested_at, due_at)
SELECT account.id, account.user_id, account.platform, delivery.external_id, delivery.received_at,
    delivery.received_at + interval '30 days'
FROM webhook_deliveries AS delivery JOIN connected_accounts AS account
    ON account.id = delivery.account_id
WHERE delivery.topic = 'customers/data_request' AND delivery.external_id IS NOT NULL
    AND delivery.handled_at IS NULL;
UPDATE webhook_deliveries SET handled_at = received_at, external_id = NULL
WHERE kind = 'privacy' AND handled_at IS NULL;

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['erasures', 'privacy_requests'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY seller ON %I TO headway_seller'
            ' USING (user_id = (SELECT current_setting(''headway.seller'', true)))'
            ' WITH CHECK (user_id = (SELECT current_setting(''headway.seller'', true)))',
            table_name);
    END LOOP;
END $$;
GRANT SELECT ON erasures, privacy_requests TO headway_seller;
GRANT UPDATE (exported_at, done_at, actor) ON privacy_requests TO headway_seller;

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
    -- privacy
    'data_erased', 'data_request_received', 'data_request_answered', 'records_expired',
    -- people
    'sync_paused', 'sync_resumed', 'sync_triggered', 'tier_set', 'shop_started', 'key_created', 'key_revoked',
    'link_created', 'session_begun', 'session_ended',
    'supplier_added', 'supplier_removed', 'supplier_chosen', 'terms_set', 'part_imported', 'shop_grouped',
    -- monitoring
    'alert_fired', 'alert_resolved'
));
