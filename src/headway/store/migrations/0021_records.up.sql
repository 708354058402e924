-- pre: rows that old processes write are noted by triggers, too.
-- Every change of a record is noted with its transaction, so that programs can read what changed since they last read.
-- A sequence would not do: a row with a smaller number may be committed later. Readers stop before the oldest
-- transaction that is still open, so that what they have passed is complete.
CREATE FUNCTION note_record_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    NEW.change_xid := pg_current_xact_id();
    RETURN NEW;
END $$;
COMMENT ON FUNCTION note_record_change IS 'Note the transaction that changes a record.';
CREATE TABLE record_deletions (
    kind text NOT NULL,
    account_id uuid NOT NULL REFERENCES connected_accounts (id) ON DELETE CASCADE,
    order_id text NOT NULL DEFAULT '',
    external_id text NOT NULL,
    user_id text NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT now(),
    change_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (kind, account_id, order_id, external_id)
);
CREATE INDEX record_deletions_changed ON record_deletions
    (kind, change_xid, account_id, order_id COLLATE "C", external_id COLLATE "C");
CREATE INDEX record_deletions_account ON record_deletions (account_id);
CREATE INDEX record_deletions_time ON record_deletions (deleted_at);
COMMENT ON TABLE record_deletions IS
    'Records that were deleted, without their data, for programs that keep a copy. Those of an erased account are not here.';
COMMENT ON COLUMN record_deletions.kind IS 'The table that the record was in.';
COMMENT ON COLUMN record_deletions.order_id IS 'The order that it was a part of; empty otherwise.';
COMMENT ON COLUMN record_deletions.external_id IS 'The platform''s id.';
COMMENT ON COLUMN record_deletions.change_xid IS 'The transaction that deleted it.';

CREATE FUNCTION note_deleted_records() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO record_deletions (kind, account_id, external_id, user_id)
    SELECT TG_TABLE_NAME, gone.account_id, gone.external_id, gone.user_id FROM gone
    JOIN connected_accounts AS account ON account.id = gone.account_id
    ORDER BY gone.account_id, gone.external_id
    ON CONFLICT (kind, account_id, order_id, external_id) DO UPDATE SET
        deleted_at = excluded.deleted_at, change_xid = excluded.change_xid;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION note_deleted_records IS 'Note records that are deleted, unless their whole account is.';
CREATE FUNCTION note_deleted_parts() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO record_deletions (kind, account_id, order_id, external_id, user_id)
    SELECT TG_TABLE_NAME, gone.account_id, gone.order_id, gone.external_id, gone.user_id FROM gone
    JOIN connected_accounts AS account ON account.id = gone.account_id
    ORDER BY gone.account_id, gone.order_id, gone.external_id
    ON CONFLICT (kind, account_id, order_id, external_id) DO UPDATE SET
        deleted_at = excluded.deleted_at, change_xid = excluded.change_xid;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION note_deleted_parts IS 'Note parts of orders that are deleted, unless their whole account is.';


-- Rows from before keep 0: they come first. A constant default does not rewrite the table.
ALTER TABLE orders ADD COLUMN change_xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE orders ALTER COLUMN change_xid SET DEFAULT pg_current_xact_id();
COMMENT ON COLUMN orders.change_xid IS 'The transaction that last changed it; what was only looked at again is not changed.';
CREATE INDEX orders_changed ON orders (change_xid, account_id, external_id COLLATE "C");
CREATE INDEX orders_seller_changed ON orders (user_id, change_xid, account_id, external_id COLLATE "C");
CREATE TRIGGER note_change BEFORE UPDATE ON orders FOR EACH ROW
    WHEN ((OLD.external_id, OLD.user_id, OLD.platform, OLD.number, OLD.status, OLD.payment_status,
        OLD.fulfillment_status, OLD.is_open, OLD.currency, OLD.total, OLD.current_total, OLD.subtotal,
        OLD.shipping, OLD.tax, OLD.discount, OLD.customer_id, OLD.placed_at, OLD.modified_at,
        OLD.cancelled_at, OLD.updated_at)
        IS DISTINCT FROM (NEW.external_id, NEW.user_id, NEW.platform, NEW.number, NEW.status, NEW.payment_status,
        NEW.fulfillment_status, NEW.is_open, NEW.currency, NEW.total, NEW.current_total, NEW.subtotal,
        NEW.shipping, NEW.tax, NEW.discount, NEW.customer_id, NEW.placed_at, NEW.modified_at,
        NEW.cancelled_at, NEW.updated_at))
    EXECUTE FUNCTION note_record_change();
CREATE TRIGGER note_deletions AFTER DELETE ON orders REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION note_deleted_records();

-- Rows from before keep 0: they come first. A constant default does not rewrite the table.
ALTER TABLE line_items ADD COLUMN change_xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE line_items ALTER COLUMN change_xid SET DEFAULT pg_current_xact_id();
COMMENT ON COLUMN line_items.change_xid IS 'The transaction that last changed it; what was only looked at again is not changed.';
CREATE INDEX line_items_changed ON line_items (change_xid, account_id, order_id COLLATE "C", external_id COLLATE "C");
CREATE INDEX line_items_seller_changed ON line_items (user_id, change_xid, account_id, order_id COLLATE "C", external_id COLLATE "C");
CREATE TRIGGER note_change BEFORE UPDATE ON line_items FOR EACH ROW
    WHEN ((OLD.external_id, OLD.user_id, OLD.listing_id, OLD.sku, OLD.title, OLD.quantity, OLD.current_quantity,
        OLD.price, OLD.currency)
        IS DISTINCT FROM (NEW.external_id, NEW.user_id, NEW.listing_id, NEW.sku, NEW.title, NEW.quantity, NEW.current_quantity,
        NEW.price, NEW.currency))
    EXECUTE FUNCTION note_record_change();
CREATE TRIGGER note_deletions AFTER DELETE ON line_items REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION note_deleted_parts();

-- Rows from before keep 0: they come first. A constant default does not rewrite the table.
ALTER TABLE shipments ADD COLUMN change_xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE shipments ALTER COLUMN change_xid SET DEFAULT pg_current_xact_id();
COMMENT ON COLUMN shipments.change_xid IS 'The transaction that last changed it; what was only looked at again is not changed.';
CREATE INDEX shipments_changed ON shipments (change_xid, account_id, order_id COLLATE "C", external_id COLLATE "C");
CREATE INDEX shipments_seller_changed ON shipments (user_id, change_xid, account_id, order_id COLLATE "C", external_id COLLATE "C");
CREATE TRIGGER note_change BEFORE UPDATE ON shipments FOR EACH ROW
    WHEN ((OLD.external_id, OLD.user_id, OLD.status, OLD.carrier, OLD.tracking, OLD.shipped_at, OLD.delivered_at)
        IS DISTINCT FROM (NEW.external_id, NEW.user_id, NEW.status, NEW.carrier, NEW.tracking, NEW.shipped_at, NEW.delivered_at))
    EXECUTE FUNCTION note_record_change();
CREATE TRIGGER note_deletions AFTER DELETE ON shipments REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION note_deleted_parts();

-- Rows from before keep 0: they come first. A constant default does not rewrite the table.
ALTER TABLE refunds ADD COLUMN change_xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE refunds ALTER COLUMN change_xid SET DEFAULT pg_current_xact_id();
COMMENT ON COLUMN refunds.change_xid IS 'The transaction that last changed it; what was only looked at again is not changed.';
CREATE INDEX refunds_changed ON refunds (change_xid, account_id, order_id COLLATE "C", external_id COLLATE "C");
CREATE INDEX refunds_seller_changed ON refunds (user_id, change_xid, account_id, order_id COLLATE "C", external_id COLLATE "C");
CREATE TRIGGER note_change BEFORE UPDATE ON refunds FOR EACH ROW
    WHEN ((OLD.external_id, OLD.user_id, OLD.status, OLD.amount, OLD.currency, OLD.reason, OLD.refunded_at)
        IS DISTINCT FROM (NEW.external_id, NEW.user_id, NEW.status, NEW.amount, NEW.currency, NEW.reason, NEW.refunded_at))
    EXECUTE FUNCTION note_record_change();
CREATE TRIGGER note_deletions AFTER DELETE ON refunds REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION note_deleted_parts();

-- Rows from before keep 0: they come first. A constant default does not rewrite the table.
ALTER TABLE listings ADD COLUMN change_xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE listings ALTER COLUMN change_xid SET DEFAULT pg_current_xact_id();
COMMENT ON COLUMN listings.change_xid IS 'The transaction that last changed it; what was only looked at again is not changed.';
CREATE INDEX listings_changed ON listings (change_xid, account_id, external_id COLLATE "C");
CREATE INDEX listings_seller_changed ON listings (user_id, change_xid, account_id, external_id COLLATE "C");
CREATE TRIGGER note_change BEFORE UPDATE ON listings FOR EACH ROW
    WHEN ((OLD.external_id, OLD.user_id, OLD.platform, OLD.sku, OLD.title, OLD.state, OLD.price, OLD.currency,
        OLD.quantity, OLD.modified_at, OLD.updated_at)
        IS DISTINCT FROM (NEW.external_id, NEW.user_id, NEW.platform, NEW.sku, NEW.title, NEW.state, NEW.price, NEW.currency,
        NEW.quantity, NEW.modified_at, NEW.updated_at))
    EXECUTE FUNCTION note_record_change();
CREATE TRIGGER note_deletions AFTER DELETE ON listings REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION note_deleted_records();

-- Rows from before keep 0: they come first. A constant default does not rewrite the table.
ALTER TABLE customers ADD COLUMN change_xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE customers ALTER COLUMN change_xid SET DEFAULT pg_current_xact_id();
COMMENT ON COLUMN customers.change_xid IS 'The transaction that last changed it; what was only looked at again is not changed.';
CREATE INDEX customers_changed ON customers (change_xid, account_id, external_id COLLATE "C");
CREATE INDEX customers_seller_changed ON customers (user_id, change_xid, account_id, external_id COLLATE "C");
CREATE TRIGGER note_change BEFORE UPDATE ON customers FOR EACH ROW
    WHEN ((OLD.external_id, OLD.user_id, OLD.platform, OLD.name, OLD.email, OLD.country, OLD.modified_at,
        OLD.updated_at)
        IS DISTINCT FROM (NEW.external_id, NEW.user_id, NEW.platform, NEW.name, NEW.email, NEW.country, NEW.modified_at,
        NEW.updated_at))
    EXECUTE FUNCTION note_record_change();
CREATE TRIGGER note_deletions AFTER DELETE ON customers REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION note_deleted_records();

-- Rows from before keep 0: they come first. A constant default does not rewrite the table.
ALTER TABLE payments ADD COLUMN change_xid xid8 NOT NULL DEFAULT '0';
ALTER TABLE payments ALTER COLUMN change_xid SET DEFAULT pg_current_xact_id();
COMMENT ON COLUMN payments.change_xid IS 'The transaction that last changed it; what was only looked at again is not changed.';
CREATE INDEX payments_changed ON payments (change_xid, account_id, external_id COLLATE "C");
CREATE INDEX payments_seller_changed ON payments (user_id, change_xid, account_id, external_id COLLATE "C");
CREATE TRIGGER note_change BEFORE UPDATE ON payments FOR EACH ROW
    WHEN ((OLD.external_id, OLD.user_id, OLD.platform, OLD.order_id, OLD.line_item_id, OLD.kind, OLD.status,
        OLD.reference_type, OLD.reference_id, OLD.is_transfer, OLD.amount, OLD.currency, OLD.paid_at,
        OLD.updated_at)
        IS DISTINCT FROM (NEW.external_id, NEW.user_id, NEW.platform, NEW.order_id, NEW.line_item_id, NEW.kind, NEW.status,
        NEW.reference_type, NEW.reference_id, NEW.is_transfer, NEW.amount, NEW.currency, NEW.paid_at,
        NEW.updated_at))
    EXECUTE FUNCTION note_record_change();
CREATE TRIGGER note_deletions AFTER DELETE ON payments REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION note_deleted_records();

ALTER TABLE record_deletions ENABLE ROW LEVEL SECURITY;
CREATE POLICY seller ON record_deletions TO headway_seller
    USING (user_id = (SELECT current_setting('headway.seller', true)))
    WITH CHECK (user_id = (SELECT current_setting('headway.seller', true)));
GRANT SELECT ON record_deletions TO headway_seller;

-- Views for tools that read with SQL. Their columns are those of /api/records: they are added to, never renamed.
CREATE VIEW records_v1_orders WITH (security_barrier) AS
    SELECT record.account_id, record.external_id AS id, record.user_id AS seller, record.platform, record.updated_at
    AS changed_at, record.number, record.status, record.payment_status, record.fulfillment_status,
    record.is_open, record.currency, record.total, record.current_total, record.subtotal, record.shipping,
    record.tax, record.discount, record.customer_id, record.placed_at, record.modified_at, record.cancelled_at
    FROM orders AS record;
COMMENT ON VIEW records_v1_orders IS 'All sellers'' orders, as /api/records/orders has them; for the role headway_reader.';
CREATE VIEW records_v1_line_items WITH (security_barrier) AS
    SELECT record.account_id, record.order_id, record.external_id AS id, record.user_id AS seller, parent.platform,
    parent.updated_at AS changed_at, record.listing_id, record.sku, record.title, record.quantity,
    record.current_quantity, record.price, record.currency
    FROM line_items AS record
    JOIN orders AS parent ON parent.account_id = record.account_id AND parent.external_id = record.order_id;
COMMENT ON VIEW records_v1_line_items IS 'All sellers'' line items, as /api/records/line_items has them; for the role headway_reader.';
CREATE VIEW records_v1_shipments WITH (security_barrier) AS
    SELECT record.account_id, record.order_id, record.external_id AS id, record.user_id AS seller, parent.platform,
    parent.updated_at AS changed_at, record.status, record.carrier, record.tracking, record.shipped_at,
    record.delivered_at
    FROM shipments AS record
    JOIN orders AS parent ON parent.account_id = record.account_id AND parent.external_id = record.order_id;
COMMENT ON VIEW records_v1_shipments IS 'All sellers'' shipments, as /api/records/shipments has them; for the role headway_reader.';
CREATE VIEW records_v1_refunds WITH (security_barrier) AS
    SELECT record.account_id, record.order_id, record.external_id AS id, record.user_id AS seller, parent.platform,
    parent.updated_at AS changed_at, record.status, record.amount, record.currency, record.reason,
    record.refunded_at
    FROM refunds AS record
    JOIN orders AS parent ON parent.account_id = record.account_id AND parent.external_id = record.order_id;
COMMENT ON VIEW records_v1_refunds IS 'All sellers'' refunds, as /api/records/refunds has them; for the role headway_reader.';
CREATE VIEW records_v1_listings WITH (security_barrier) AS
    SELECT record.account_id, record.external_id AS id, record.user_id AS seller, record.platform, record.updated_at
    AS changed_at, record.sku, record.title, record.state, record.price, record.currency, record.quantity,
    record.modified_at
    FROM listings AS record;
COMMENT ON VIEW records_v1_listings IS 'All sellers'' listings, as /api/records/listings has them; for the role headway_reader.';
CREATE VIEW records_v1_customers WITH (security_barrier) AS
    SELECT record.account_id, record.external_id AS id, record.user_id AS seller, record.platform, record.updated_at
    AS changed_at, record.name, record.email, record.country, record.modified_at
    FROM customers AS record;
COMMENT ON VIEW records_v1_customers IS 'All sellers'' customers, as /api/records/customers has them; for the role headway_reader.';
CREATE VIEW records_v1_payments WITH (security_barrier) AS
    SELECT record.account_id, record.external_id AS id, record.user_id AS seller, record.platform, record.updated_at
    AS changed_at, record.order_id, record.line_item_id, record.kind, record.status, record.reference_type,
    record.reference_id, record.is_transfer, record.amount, record.currency, record.paid_at
    FROM payments AS record;
COMMENT ON VIEW records_v1_payments IS 'All sellers'' payments, as /api/records/payments has them; for the role headway_reader.';

-- A role for tools that may read every seller's records, and nothing else. It is given to a login by an administrator:
-- GRANT headway_reader TO somebody. Where this user may not make roles, an administrator makes it.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'headway_reader') THEN
        BEGIN
            CREATE ROLE headway_reader NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO headway_reader', current_schema());
    GRANT SELECT ON records_v1_orders, records_v1_line_items, records_v1_shipments, records_v1_refunds,
        records_v1_listings, records_v1_customers, records_v1_payments TO headway_reader;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'the role headway_reader was not made: this user may not make roles';
END $$;
