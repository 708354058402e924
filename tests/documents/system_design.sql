-- Section 6 of the system design: one row per product, hour buckets, a status.
CREATE TABLE product_sync_schedule (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    UNIQUE (user_id, sku),
    hour_bucket smallint NOT NULL CHECK (hour_bucket BETWEEN 0 AND 23),
    sync_status text NOT NULL DEFAULT 'pending'
        CHECK (sync_status IN ('pending', 'syncing', 'success', 'failed')),
    last_sync_at timestamptz,
    consecutive_failures integer NOT NULL DEFAULT 0,
    last_error text,
    last_boeing_hash text,
    last_price numeric,
    last_quantity integer,
    is_active boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX idx_sync_hourly ON product_sync_schedule (hour_bucket, sync_status, last_sync_at)
    WHERE is_active = true;
CREATE INDEX idx_sync_failed ON product_sync_schedule (consecutive_failures, last_sync_at)
    WHERE is_active = true AND sync_status = 'failed';
CREATE INDEX idx_sync_distribution ON product_sync_schedule (hour_bucket) WHERE is_active = true;
CREATE INDEX idx_sync_stuck ON product_sync_schedule (last_sync_at) WHERE sync_status = 'syncing';
