-- pre: old processes go on writing `unchanged`, which means no_change, and no events of reads.
-- The columns, values and functions of the design documents, for those who read the tables.
ALTER TABLE product_sync_schedule
    DROP CONSTRAINT product_sync_schedule_last_sync_status_check,
    ADD CONSTRAINT product_sync_schedule_last_sync_status_check CHECK (last_sync_status IN (
        'pending', 'success', 'no_change', 'updated', 'failed', 'unchanged')),
    ADD COLUMN sync_slot integer GENERATED ALWAYS AS (hour_bucket * 60 + minute_offset) STORED,
    ADD COLUMN last_sync_error text GENERATED ALWAYS AS (last_error) STORED,
    ADD COLUMN last_boeing_price numeric GENERATED ALWAYS AS (last_price) STORED,
    ADD COLUMN last_boeing_quantity integer GENERATED ALWAYS AS (last_quantity) STORED,
    ADD COLUMN last_boeing_in_stock boolean
        GENERATED ALWAYS AS (last_inventory_status = 'in_stock') STORED;
UPDATE product_sync_schedule SET last_sync_status = 'no_change' WHERE last_sync_status = 'unchanged';
COMMENT ON COLUMN product_sync_schedule.last_sync_status IS
    'Outcome of the last read: success (the first good one), no_change, updated or failed. Processes of before this migration wrote unchanged for no_change.';
COMMENT ON COLUMN product_sync_schedule.sync_slot IS 'The documents'' name: minute of the day of the slot.';
COMMENT ON COLUMN product_sync_schedule.last_sync_error IS 'The documents'' name of last_error.';
COMMENT ON COLUMN product_sync_schedule.last_boeing_price IS 'The documents'' name of last_price.';
COMMENT ON COLUMN product_sync_schedule.last_boeing_quantity IS 'The documents'' name of last_quantity.';
COMMENT ON COLUMN product_sync_schedule.last_boeing_in_stock IS
    'The documents'' name: whether last_inventory_status is in_stock.';

-- Readers of the history look for the price under this name.
UPDATE sync_audit_log SET
    old_value = old_value || jsonb_build_object('price', old_value -> 'list_price'),
    new_value = new_value || jsonb_build_object('price', new_value -> 'list_price')
WHERE event_type = 'price_changed' AND NOT new_value ? 'price';
COMMENT ON COLUMN sync_audit_log.error_code IS 'Kind of failure, for programs; beside error_message.';
COMMENT ON COLUMN sync_audit_log.task_id IS 'Worker and call that caused the event.';

CREATE TABLE adoption (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    document text NOT NULL,
    adopted_at timestamptz NOT NULL,
    report jsonb NOT NULL
);
COMMENT ON TABLE adoption IS
    'One row if the database was made by a design document and taken over; empty otherwise.';
COMMENT ON COLUMN adoption.document IS 'The design document.';
COMMENT ON COLUMN adoption.report IS 'What became of each table.';

-- The documents' procedures. A listing that is due is in the queue already, and only Headway calls
-- the supplier, so they show the rows and change nothing.
CREATE FUNCTION calculate_next_sync_at(p_hour_bucket integer, p_minute_offset integer)
RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN slot > now() THEN slot ELSE slot + interval '1 day' END
    FROM (SELECT (date_trunc('day', now() AT TIME ZONE 'UTC')
        + make_interval(hours => p_hour_bucket, mins => p_minute_offset)) AT TIME ZONE 'UTC' AS slot
    ) AS today
$$;
COMMENT ON FUNCTION calculate_next_sync_at IS 'The next time of a slot, in UTC.';

CREATE FUNCTION dispatch_sync_bucket(p_hour_bucket integer, p_limit integer DEFAULT 100)
RETURNS TABLE (
    id uuid, user_id text, sku text, hour_bucket smallint, minute_offset smallint,
    last_boeing_hash text, last_boeing_price numeric, last_boeing_quantity integer
) LANGUAGE sql STABLE AS $$
    SELECT id, user_id, sku, hour_bucket, minute_offset, last_boeing_hash, last_price, last_quantity
    FROM product_sync_schedule AS row
    WHERE row.hour_bucket = p_hour_bucket AND next_sync_at <= now()
      AND is_active AND NOT is_paused AND sync_status <> 'syncing'
    ORDER BY next_sync_at, id LIMIT p_limit
$$;
COMMENT ON FUNCTION dispatch_sync_bucket IS
    'Listings of an hour that are due and wait for the next call. Reading them dispatches nothing: they are in the queue.';

CREATE FUNCTION dispatch_sync_catchup(p_overdue_minutes integer DEFAULT 30,
    p_stuck_minutes integer DEFAULT 10, p_limit integer DEFAULT 50)
RETURNS TABLE (
    id uuid, user_id text, sku text, hour_bucket smallint, minute_offset smallint,
    last_boeing_hash text, last_boeing_price numeric, last_boeing_quantity integer
) LANGUAGE sql STABLE AS $$
    SELECT id, user_id, sku, hour_bucket, minute_offset, last_boeing_hash, last_price, last_quantity
    FROM product_sync_schedule AS row
    WHERE next_sync_at < now() - make_interval(mins => p_overdue_minutes)
      AND is_active AND NOT is_paused
      AND (last_sync_started_at IS NULL
           OR last_sync_started_at < now() - make_interval(mins => p_stuck_minutes))
    ORDER BY consecutive_failures, next_sync_at, id LIMIT p_limit
$$;
COMMENT ON FUNCTION dispatch_sync_catchup IS
    'Listings that are overdue and not being read. Reading them dispatches nothing: they are in the queue.';
