-- The simplified implementation: a slot of the day in minutes, and a due time.
CREATE TABLE product_sync_schedule (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    sync_slot integer NOT NULL,
    next_sync_at timestamptz NOT NULL,
    last_sync_at timestamptz,
    sync_status text DEFAULT 'pending',
    last_error text,
    consecutive_failures integer DEFAULT 0,
    last_boeing_hash text,
    last_price numeric,
    last_quantity integer,
    is_active boolean DEFAULT true,
    created_at timestamptz DEFAULT now(),
    updated_at timestamptz DEFAULT now(),
    CONSTRAINT sync_schedule_user_sku_unique UNIQUE (user_id, sku)
);
CREATE INDEX idx_sync_schedule_dispatch
    ON product_sync_schedule (next_sync_at, is_active, sync_status)
    WHERE is_active = true AND sync_status != 'syncing';
