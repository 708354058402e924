-- pre: old processes record no events for endpoints and send none; both begin with the new ones.
-- Outgoing webhooks: where to send, what happened, and what was sent.
CREATE TABLE webhook_endpoints (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text,
    url text NOT NULL,
    description text NOT NULL DEFAULT '',
    event_types text[] NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'enabled' CHECK (status IN ('enabled', 'disabled')),
    reason text NOT NULL DEFAULT '',
    disabled_at timestamptz,
    failures integer NOT NULL DEFAULT 0,
    failing_since timestamptz,
    retry_at timestamptz,
    is_slow boolean NOT NULL DEFAULT false,
    delivered_at timestamptz,
    served_at timestamptz,
    fence bigint NOT NULL DEFAULT 0,
    lease_owner text,
    lease_until timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT webhook_endpoints_lease CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
);
CREATE INDEX webhook_endpoints_seller ON webhook_endpoints (user_id);
COMMENT ON TABLE webhook_endpoints IS
    'Addresses that events are sent to. Signing secrets are in credential, under webhook:id.';
COMMENT ON COLUMN webhook_endpoints.user_id IS 'Seller whose events it receives; NULL for the events of all sellers.';
COMMENT ON COLUMN webhook_endpoints.event_types IS 'Types of events that it receives; empty for all.';
COMMENT ON COLUMN webhook_endpoints.reason IS 'Why it is disabled.';
COMMENT ON COLUMN webhook_endpoints.failures IS 'Failed attempts in a row, of any events.';
COMMENT ON COLUMN webhook_endpoints.failing_since IS 'The first of these attempts.';
COMMENT ON COLUMN webhook_endpoints.retry_at IS 'Nothing is sent before this.';
COMMENT ON COLUMN webhook_endpoints.is_slow IS
    'The last attempt failed or took long: it is served apart, and delays only others like it.';
COMMENT ON COLUMN webhook_endpoints.delivered_at IS 'The last successful delivery.';
COMMENT ON COLUMN webhook_endpoints.served_at IS 'When a worker last took it; the one that waits longest is next.';
COMMENT ON COLUMN webhook_endpoints.fence IS
    'Fencing number of the lease. Only one worker sends to an endpoint at a time.';

CREATE TABLE webhook_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id text NOT NULL DEFAULT 'evt_' || replace(gen_random_uuid()::text, '-', '')
        CONSTRAINT webhook_events_message_id_unique UNIQUE,
    type text NOT NULL,
    user_id text NOT NULL,
    subject text NOT NULL,
    endpoint_id uuid REFERENCES webhook_endpoints (id) ON DELETE CASCADE,
    data jsonb NOT NULL,
    occurred_at timestamptz NOT NULL
);
CREATE INDEX webhook_events_time ON webhook_events (occurred_at);
CREATE INDEX webhook_events_seller ON webhook_events (user_id);
CREATE INDEX webhook_events_endpoint ON webhook_events (endpoint_id) WHERE endpoint_id IS NOT NULL;
COMMENT ON TABLE webhook_events IS
    'What endpoints are sent, stored in the transaction of the event, if an endpoint receives its type.';
COMMENT ON COLUMN webhook_events.id IS 'Position: events of one subject are sent in this order.';
COMMENT ON COLUMN webhook_events.message_id IS 'The header webhook-id, the same in every attempt.';
COMMENT ON COLUMN webhook_events.user_id IS 'Seller concerned; empty if the event concerns no seller.';
COMMENT ON COLUMN webhook_events.subject IS 'What it is about: an order, a listing, a part, an account.';
COMMENT ON COLUMN webhook_events.endpoint_id IS 'The only endpoint that receives it, for a test; NULL otherwise.';

CREATE TABLE event_deliveries (
    endpoint_id uuid NOT NULL REFERENCES webhook_endpoints (id) ON DELETE CASCADE,
    event_id bigint NOT NULL REFERENCES webhook_events (id) ON DELETE CASCADE,
    user_id text,
    subject text NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    first_tried_at timestamptz,
    tried_at timestamptz,
    due_at timestamptz,
    ended_at timestamptz,
    is_delivered boolean NOT NULL DEFAULT false,
    http_status integer,
    error text NOT NULL DEFAULT '',
    reply text NOT NULL DEFAULT '',
    PRIMARY KEY (endpoint_id, event_id)
);
CREATE INDEX event_deliveries_event ON event_deliveries (event_id);
CREATE INDEX event_deliveries_open ON event_deliveries (endpoint_id, event_id) WHERE ended_at IS NULL;
CREATE INDEX event_deliveries_due ON event_deliveries (endpoint_id, due_at) WHERE ended_at IS NULL;
CREATE INDEX event_deliveries_subject ON event_deliveries (endpoint_id, subject, event_id)
    WHERE ended_at IS NULL;
COMMENT ON TABLE event_deliveries IS 'One event and one endpoint: how often it was sent, and the last answer.';
COMMENT ON COLUMN event_deliveries.user_id IS 'Seller of the endpoint; NULL if it receives the events of all sellers.';
COMMENT ON COLUMN event_deliveries.first_tried_at IS 'The first attempt; three days after it, the delivery is given up.';
COMMENT ON COLUMN event_deliveries.due_at IS 'When it is tried again; NULL for at once.';
COMMENT ON COLUMN event_deliveries.ended_at IS 'When it was delivered or given up; NULL while it waits.';
COMMENT ON COLUMN event_deliveries.error IS 'Why the last attempt failed.';
COMMENT ON COLUMN event_deliveries.reply IS 'The beginning of the last answer.';

DO $$
DECLARE
    table_name text;
BEGIN
    FOREACH table_name IN ARRAY ARRAY['webhook_endpoints', 'webhook_events', 'event_deliveries'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
        EXECUTE format(
            'CREATE POLICY seller ON %I TO headway_seller'
            ' USING (user_id = (SELECT current_setting(''headway.seller'', true)))'
            ' WITH CHECK (user_id = (SELECT current_setting(''headway.seller'', true)))', table_name);
        EXECUTE format('GRANT SELECT ON %I TO headway_seller', table_name);
    END LOOP;
END $$;

-- Facts become events by triggers: in the same transaction with anyone's write of the fact, without a
-- round trip, and only if an endpoint receives them. Two transactions about one subject wait for
-- each other at its row, so the later one gets the higher id.
CREATE FUNCTION webhook_instant(instant timestamptz) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT to_char(instant AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
$$;
COMMENT ON FUNCTION webhook_instant IS 'Write an instant as events contain it: ISO 8601, in UTC.';

CREATE FUNCTION webhook_is_wanted(event_type text, seller text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM webhook_endpoints AS endpoint
        WHERE (endpoint.user_id IS NULL OR endpoint.user_id = seller)
          AND (endpoint.event_types = '{}' OR event_type = ANY(endpoint.event_types)))
$$;
COMMENT ON FUNCTION webhook_is_wanted IS
    'True if an endpoint receives such events of this seller, now or after it is enabled again.';

CREATE FUNCTION webhook_fan_out() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_deliveries (endpoint_id, event_id, user_id, subject)
    SELECT endpoint.id, entered.id, endpoint.user_id, entered.subject
    FROM entered JOIN webhook_endpoints AS endpoint
      ON endpoint.status = 'enabled' AND CASE WHEN entered.endpoint_id IS NOT NULL
        THEN endpoint.id = entered.endpoint_id
        ELSE (endpoint.user_id IS NULL OR endpoint.user_id = entered.user_id)
          AND (endpoint.event_types = '{}' OR entered.type = ANY(endpoint.event_types)) END
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION webhook_fan_out IS 'Add a delivery for each endpoint that receives a new event.';
CREATE TRIGGER webhook_fan_out AFTER INSERT ON webhook_events
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION webhook_fan_out();

CREATE FUNCTION webhook_order_data(entry orders) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'account_id', entry.account_id, 'platform', entry.platform,
        'order_id', entry.external_id, 'number', entry.number, 'status', entry.status,
        'payment_status', entry.payment_status, 'fulfillment_status', entry.fulfillment_status,
        'is_open', entry.is_open, 'currency', entry.currency, 'total', entry.total::text,
        'current_total', entry.current_total::text,
        'placed_at', webhook_instant(entry.placed_at),
        'modified_at', webhook_instant(entry.modified_at),
        'cancelled_at', webhook_instant(entry.cancelled_at))
$$;
COMMENT ON FUNCTION webhook_order_data IS 'An order as events contain it: nothing about its buyer.';

CREATE FUNCTION webhook_listing_data(entry listings) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'account_id', entry.account_id, 'platform', entry.platform,
        'listing_id', entry.external_id, 'sku', entry.sku, 'title', entry.title,
        'state', entry.state, 'price', entry.price::text, 'currency', entry.currency,
        'quantity', entry.quantity, 'modified_at', webhook_instant(entry.modified_at))
$$;
COMMENT ON FUNCTION webhook_listing_data IS 'A listing of a platform as events contain it.';

CREATE FUNCTION webhook_changed_fields(before jsonb, after jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_agg(field.key ORDER BY field.key), '[]')
    FROM jsonb_each(after) AS field WHERE field.value IS DISTINCT FROM before -> field.key
$$;
COMMENT ON FUNCTION webhook_changed_fields IS 'Names of the fields that differ.';

-- Orders from before the account was connected are history: read them by /api/records.
CREATE FUNCTION webhook_orders_created() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_endpoints) THEN
        RETURN NULL;
    END IF;
    INSERT INTO webhook_events (type, user_id, subject, data, occurred_at)
    SELECT 'order.created', entered.user_id,
        'order:' || entered.account_id || '/' || entered.external_id,
        webhook_order_data(entered), entered.created_at
    FROM entered JOIN connected_accounts AS account ON account.id = entered.account_id
    WHERE entered.placed_at >= account.created_at
      AND webhook_is_wanted('order.created', entered.user_id)
    ORDER BY entered.placed_at, entered.external_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION webhook_orders_created IS 'Record order.created for orders placed since the account was connected.';
CREATE TRIGGER webhook_orders_created AFTER INSERT ON orders
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION webhook_orders_created();

CREATE FUNCTION webhook_orders_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_endpoints) THEN
        RETURN NULL;
    END IF;
    INSERT INTO webhook_events (type, user_id, subject, data, occurred_at)
    SELECT 'order.updated', changed.user_id,
        'order:' || changed.account_id || '/' || changed.external_id,
        webhook_order_data(changed) || jsonb_build_object('changed',
            webhook_changed_fields(webhook_order_data(former), webhook_order_data(changed))),
        changed.updated_at
    FROM changed JOIN former USING (account_id, external_id)
    WHERE (changed.updated_at IS DISTINCT FROM former.updated_at
        OR webhook_order_data(changed) IS DISTINCT FROM webhook_order_data(former))
      AND webhook_is_wanted('order.updated', changed.user_id)
    ORDER BY changed.external_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION webhook_orders_updated IS 'Record order.updated for orders that are not as they were.';
CREATE TRIGGER webhook_orders_updated AFTER UPDATE ON orders
    REFERENCING OLD TABLE AS former NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION webhook_orders_updated();

-- What the first complete walk of an account's listings finds is not new.
CREATE FUNCTION webhook_listings_created() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_endpoints) THEN
        RETURN NULL;
    END IF;
    INSERT INTO webhook_events (type, user_id, subject, data, occurred_at)
    SELECT 'listing.changed', entered.user_id,
        'listing:' || entered.account_id || '/' || entered.external_id,
        webhook_listing_data(entered) || '{"change": "created", "changed": []}',
        entered.created_at
    FROM entered WHERE webhook_is_wanted('listing.changed', entered.user_id)
      AND EXISTS (SELECT FROM listing_walks AS walk WHERE walk.account_id = entered.account_id)
    ORDER BY entered.external_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION webhook_listings_created IS
    'Record listing.changed for listings that are new after the first complete walk.';
CREATE TRIGGER webhook_listings_created AFTER INSERT ON listings
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION webhook_listings_created();

CREATE FUNCTION webhook_listings_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_endpoints) THEN
        RETURN NULL;
    END IF;
    INSERT INTO webhook_events (type, user_id, subject, data, occurred_at)
    SELECT 'listing.changed', changed.user_id,
        'listing:' || changed.account_id || '/' || changed.external_id,
        webhook_listing_data(changed) || jsonb_build_object(
            'change', CASE WHEN changed.state = 'removed' THEN 'removed' ELSE 'updated' END,
            'changed', webhook_changed_fields(
                webhook_listing_data(former), webhook_listing_data(changed))),
        changed.updated_at
    FROM changed JOIN former USING (account_id, external_id)
    WHERE (changed.updated_at IS DISTINCT FROM former.updated_at
        OR webhook_listing_data(changed) IS DISTINCT FROM webhook_listing_data(former))
      AND webhook_is_wanted('listing.changed', changed.user_id)
    ORDER BY changed.external_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION webhook_listings_updated IS 'Record listing.changed for listings that are not as they were.';
CREATE TRIGGER webhook_listings_updated AFTER UPDATE ON listings
    REFERENCING OLD TABLE AS former NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION webhook_listings_updated();

CREATE FUNCTION webhook_accounts() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    entry connected_accounts := coalesce(new, old);
    kind text := 'account.' || CASE WHEN tg_op = 'DELETE' THEN 'disconnected' ELSE new.status END;
    account_reason text := CASE WHEN tg_op = 'DELETE' THEN 'deleted' ELSE new.reason END;
BEGIN
    INSERT INTO webhook_events (type, user_id, subject, data, occurred_at)
    SELECT kind, entry.user_id, 'account:' || entry.id,
        jsonb_build_object('account_id', entry.id, 'platform', entry.platform,
            'shop', entry.shop, 'title', entry.title, 'reason', account_reason),
        CASE WHEN tg_op = 'DELETE' THEN now() ELSE entry.updated_at END
    WHERE webhook_is_wanted(kind, entry.user_id);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION webhook_accounts IS 'Record account.connected and account.disconnected.';
CREATE TRIGGER webhook_accounts_created AFTER INSERT ON connected_accounts
    FOR EACH ROW WHEN (new.status = 'connected') EXECUTE FUNCTION webhook_accounts();
CREATE TRIGGER webhook_accounts_updated AFTER UPDATE ON connected_accounts
    FOR EACH ROW WHEN (new.status <> old.status) EXECUTE FUNCTION webhook_accounts();
CREATE TRIGGER webhook_accounts_deleted AFTER DELETE ON connected_accounts
    FOR EACH ROW WHEN (old.status = 'connected') EXECUTE FUNCTION webhook_accounts();

CREATE FUNCTION webhook_history() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM webhook_endpoints) THEN
        RETURN NULL;
    END IF;
    INSERT INTO webhook_events (type, user_id, subject, data, occurred_at)
    SELECT named.type, entered.user_id, fact.subject, fact.data, entered.sync_timestamp
    FROM entered
    JOIN (VALUES
        ('change_held', 'change.held'), ('change_approved', 'change.approved'),
        ('change_rejected', 'change.rejected'), ('shopify_updated', 'change.applied'),
        ('shopify_update_failed', 'change.failed'), ('product_published', 'part.published'),
        ('publish_blocked', 'part.blocked'), ('product_deactivated', 'part.parked'),
        ('listing_revived', 'part.revived'), ('listing_removed', 'part.removed'),
        ('job_dead', 'account.reading_failed'), ('plan_limit_reached', 'quota.reached'),
        ('plan_limit_lifted', 'quota.lifted')
    ) AS named (event_type, type) ON named.event_type = entered.event_type
    LEFT JOIN sync_jobs AS job ON job.id = entered.job_id
    CROSS JOIN LATERAL (SELECT
        CASE WHEN job.id IS NULL THEN 'part:' || entered.user_id || '/' || coalesce(entered.sku, '')
             ELSE 'account:' || job.account_id END AS subject,
        CASE WHEN job.id IS NULL THEN jsonb_build_object('part_number', entered.sku,
                'reason', coalesce(entered.error_message, ''),
                'before', entered.old_value, 'after', entered.new_value)
             ELSE jsonb_build_object('account_id', job.account_id, 'platform', job.platform,
                'kind', job.kind, 'job_id', job.id,
                'reason', coalesce(entered.error_message, entered.new_value ->> 'reason', '')) END
            AS data) AS fact
    WHERE webhook_is_wanted(named.type, entered.user_id)
    ORDER BY entered.sync_timestamp;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION webhook_history IS 'Record events of parts and jobs, as they enter the history.';
CREATE TRIGGER webhook_history AFTER INSERT ON sync_audit_log
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION webhook_history();
