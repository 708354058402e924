-- Part 3 of the design with separate retries: the date of the last successful read.
CREATE TABLE product_sync_schedule (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    hour_bucket smallint NOT NULL CHECK (hour_bucket BETWEEN 0 AND 23),
    sync_status text NOT NULL DEFAULT 'pending',
    last_sync_at timestamptz,
    last_successful_sync date,
    consecutive_failures integer NOT NULL DEFAULT 0,
    last_error text,
    is_active boolean NOT NULL DEFAULT true,
    last_boeing_hash text,
    last_price numeric,
    last_quantity integer,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (user_id, sku)
);
CREATE INDEX idx_sync_schedule_hourly ON product_sync_schedule (hour_bucket, last_successful_sync)
    WHERE is_active = true AND sync_status != 'syncing';
CREATE INDEX idx_sync_schedule_failed ON product_sync_schedule (consecutive_failures, last_sync_at)
    WHERE is_active = true AND sync_status = 'failed';
CREATE INDEX idx_sync_schedule_stuck ON product_sync_schedule (last_sync_at)
    WHERE sync_status = 'syncing';
