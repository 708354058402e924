-- Migration 005 of the second implementation plan: schedule, audit log, trigger and procedures.
CREATE TABLE IF NOT EXISTS product_sync_schedule (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    hour_bucket smallint NOT NULL CHECK (hour_bucket BETWEEN 0 AND 23),
    minute_offset smallint NOT NULL CHECK (minute_offset BETWEEN 0 AND 59),
    next_sync_at timestamptz NOT NULL,
    last_sync_at timestamptz,
    last_sync_started_at timestamptz,
    last_sync_status text DEFAULT 'pending' CHECK (last_sync_status IN (
        'pending', 'success', 'no_change', 'updated', 'failed')),
    last_sync_error text,
    consecutive_failures integer DEFAULT 0,
    last_boeing_hash text,
    last_boeing_price numeric,
    last_boeing_quantity integer,
    last_boeing_in_stock boolean,
    is_active boolean DEFAULT true,
    sync_priority integer DEFAULT 0,
    manual_slot_override boolean DEFAULT false,
    created_at timestamptz DEFAULT now(),
    updated_at timestamptz DEFAULT now(),
    CONSTRAINT product_sync_schedule_user_sku_unique UNIQUE (user_id, sku)
);
CREATE INDEX IF NOT EXISTS idx_sync_schedule_bucket_dispatch
    ON product_sync_schedule (hour_bucket, next_sync_at, is_active) WHERE is_active = true;
CREATE INDEX IF NOT EXISTS idx_sync_schedule_overdue
    ON product_sync_schedule (next_sync_at, is_active) WHERE is_active = true;
CREATE INDEX IF NOT EXISTS idx_sync_schedule_user ON product_sync_schedule (user_id, is_active);
CREATE INDEX IF NOT EXISTS idx_sync_schedule_failures
    ON product_sync_schedule (consecutive_failures, is_active)
    WHERE consecutive_failures > 0 AND is_active = true;

CREATE TABLE IF NOT EXISTS sync_audit_log (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    sync_timestamp timestamptz DEFAULT now(),
    event_type text NOT NULL CHECK (event_type IN (
        'sync_started', 'sync_completed', 'sync_failed', 'price_changed', 'quantity_changed',
        'stock_status_changed', 'shopify_updated', 'shopify_update_failed', 'product_deactivated',
        'dispatch_started')),
    old_value jsonb,
    new_value jsonb,
    error_message text,
    error_code text,
    batch_id uuid,
    task_id text,
    created_at timestamptz DEFAULT now()
);
CREATE INDEX IF NOT EXISTS idx_sync_audit_log_time
    ON sync_audit_log (user_id, sync_timestamp DESC);
CREATE INDEX IF NOT EXISTS idx_sync_audit_log_sku ON sync_audit_log (sku, sync_timestamp DESC);

CREATE OR REPLACE FUNCTION set_sync_schedule_updated_at() RETURNS trigger AS $$
BEGIN
    NEW.updated_at = now();
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;
CREATE TRIGGER trg_sync_schedule_updated_at BEFORE UPDATE ON product_sync_schedule
    FOR EACH ROW EXECUTE FUNCTION set_sync_schedule_updated_at();

CREATE OR REPLACE FUNCTION dispatch_sync_bucket(
    p_hour_bucket integer, p_limit integer DEFAULT 100
) RETURNS TABLE (
    id uuid, user_id text, sku text, hour_bucket smallint, minute_offset smallint,
    last_boeing_hash text, last_boeing_price numeric, last_boeing_quantity integer
) AS $$
BEGIN
    RETURN QUERY
    WITH locked_rows AS (
        SELECT pss.id FROM product_sync_schedule pss
        WHERE pss.hour_bucket = p_hour_bucket AND pss.next_sync_at <= now() AND pss.is_active = true
        ORDER BY pss.sync_priority DESC, pss.next_sync_at ASC
        FOR UPDATE SKIP LOCKED LIMIT p_limit
    )
    UPDATE product_sync_schedule pss SET last_sync_started_at = now()
    FROM locked_rows lr WHERE pss.id = lr.id
    RETURNING pss.id, pss.user_id, pss.sku, pss.hour_bucket, pss.minute_offset,
        pss.last_boeing_hash, pss.last_boeing_price, pss.last_boeing_quantity;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION dispatch_sync_catchup(
    p_overdue_minutes integer DEFAULT 30, p_stuck_minutes integer DEFAULT 10,
    p_limit integer DEFAULT 50
) RETURNS TABLE (
    id uuid, user_id text, sku text, hour_bucket smallint, minute_offset smallint,
    last_boeing_hash text, last_boeing_price numeric, last_boeing_quantity integer
) AS $$
BEGIN
    RETURN QUERY
    WITH locked_rows AS (
        SELECT pss.id FROM product_sync_schedule pss
        WHERE pss.next_sync_at < now() - (p_overdue_minutes || ' minutes')::interval
          AND pss.is_active = true
          AND (pss.last_sync_started_at IS NULL
               OR pss.last_sync_started_at < now() - (p_stuck_minutes || ' minutes')::interval)
        ORDER BY pss.consecutive_failures ASC, pss.next_sync_at ASC
        FOR UPDATE SKIP LOCKED LIMIT p_limit
    )
    UPDATE product_sync_schedule pss SET last_sync_started_at = now()
    FROM locked_rows lr WHERE pss.id = lr.id
    RETURNING pss.id, pss.user_id, pss.sku, pss.hour_bucket, pss.minute_offset,
        pss.last_boeing_hash, pss.last_boeing_price, pss.last_boeing_quantity;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION calculate_next_sync_at(
    p_hour_bucket integer, p_minute_offset integer
) RETURNS timestamptz AS $$
DECLARE
    v_slot_time_today timestamptz;
BEGIN
    v_slot_time_today := current_date
        + make_interval(hours => p_hour_bucket, mins => p_minute_offset);
    IF v_slot_time_today > now() THEN
        RETURN v_slot_time_today;
    END IF;
    RETURN v_slot_time_today + interval '1 day';
END;
$$ LANGUAGE plpgsql;
