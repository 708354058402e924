-- The tables that the documents' scheduler finds in place, with the columns that they name.
CREATE TABLE product (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    title text,
    list_price numeric,
    price numeric,
    inventory_quantity integer,
    shopify_product_id text,
    shopify_variant_id text,
    shopify_inventory_item_id text,
    warehouse_note text,
    created_at timestamptz DEFAULT now(),
    updated_at timestamptz DEFAULT now(),
    UNIQUE (user_id, sku)
);
CREATE TABLE product_staging (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    title text,
    list_price numeric,
    price numeric,
    inventory_quantity integer,
    shopify_product_id text,
    batch_id uuid,
    status text DEFAULT 'fetched',
    created_at timestamptz DEFAULT now(),
    updated_at timestamptz DEFAULT now()
);
CREATE TABLE boeing_raw_data (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    user_id text NOT NULL,
    sku text NOT NULL,
    raw_payload jsonb,
    created_at timestamptz DEFAULT now()
);
