DROP VIEW records_v1_orders, records_v1_line_items, records_v1_shipments, records_v1_refunds, records_v1_listings,
    records_v1_customers, records_v1_payments;
DROP TRIGGER note_change ON orders;
DROP TRIGGER note_deletions ON orders;
ALTER TABLE orders DROP COLUMN change_xid;
DROP TRIGGER note_change ON line_items;
DROP TRIGGER note_deletions ON line_items;
ALTER TABLE line_items DROP COLUMN change_xid;
DROP TRIGGER note_change ON shipments;
DROP TRIGGER note_deletions ON shipments;
ALTER TABLE shipments DROP COLUMN change_xid;
DROP TRIGGER note_change ON refunds;
DROP TRIGGER note_deletions ON refunds;
ALTER TABLE refunds DROP COLUMN change_xid;
DROP TRIGGER note_change ON listings;
DROP TRIGGER note_deletions ON listings;
ALTER TABLE listings DROP COLUMN change_xid;
DROP TRIGGER note_change ON customers;
DROP TRIGGER note_deletions ON customers;
ALTER TABLE customers DROP COLUMN change_xid;
DROP TRIGGER note_change ON payments;
DROP TRIGGER note_deletions ON payments;
ALTER TABLE payments DROP COLUMN change_xid;
DROP TABLE record_deletions;
DROP FUNCTION note_record_change, note_deleted_records, note_deleted_parts;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'headway_reader') THEN
        EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM headway_reader', current_schema());
    END IF;
END $$;
