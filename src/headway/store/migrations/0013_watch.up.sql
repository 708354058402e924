-- pre: older code does not know these tables, and writes no events or notices of the new kinds.
-- What is wrong, or was: since when without a break, when somebody was told, when it was over. A row
-- that was never told of goes when what it says is no longer so.
CREATE TABLE alert_states (
    name text NOT NULL,
    subject text NOT NULL,
    severity text NOT NULL CHECK (severity IN ('critical', 'warning', 'notice')),
    sentence text NOT NULL,
    link text NOT NULL,
    count bigint NOT NULL,
    -- Whose it is, if it is one seller's. No wall: only the engine and operators read this table.
    seller text,
    since timestamptz NOT NULL,
    well_since timestamptz,
    fired_at timestamptz,
    resolved_at timestamptz,
    PRIMARY KEY (name, subject),
    CONSTRAINT alert_states_order CHECK (resolved_at IS NULL OR fired_at IS NOT NULL)
);

-- What is to be sent to people, written with what it tells of. `key` says of what and since when, so
-- that the same news is written once. `delivered` are digests of the addresses that have it; a sender
-- holds a row under `lease_until`, and `tries` is its fence.
CREATE TABLE outbox (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    key text NOT NULL CONSTRAINT outbox_once UNIQUE,
    severity text NOT NULL CHECK (severity IN ('critical', 'warning', 'notice')),
    title text NOT NULL,
    body text NOT NULL,
    created_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    lease_until timestamptz,
    tries integer NOT NULL DEFAULT 0,
    delivered text[] NOT NULL DEFAULT '{}',
    error text NOT NULL DEFAULT '',
    ended_at timestamptz,
    is_sent boolean NOT NULL DEFAULT false,
    notice_id uuid REFERENCES notices (id) ON DELETE SET NULL
);
CREATE INDEX outbox_due ON outbox (due_at) WHERE ended_at IS NULL;
CREATE INDEX outbox_notice ON outbox (notice_id) WHERE notice_id IS NOT NULL;

ALTER TABLE notices DROP CONSTRAINT notices_topic_check;
ALTER TABLE notices ADD CONSTRAINT notices_topic_check CHECK (topic IN (
    'job_dead', 'account_disconnected', 'token_expiring', 'price_held'
));
CREATE INDEX notices_undelivered ON notices (created_at) WHERE delivered_at IS NULL;

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
    'alert_fired', 'alert_resolved'
));
