-- The key `price` in old events stays: nothing reads it.
DROP FUNCTION dispatch_sync_catchup, dispatch_sync_bucket, calculate_next_sync_at;
DROP TABLE adoption;
UPDATE product_sync_schedule SET last_sync_status = 'unchanged' WHERE last_sync_status = 'no_change';
UPDATE product_sync_schedule SET last_sync_status = 'updated' WHERE last_sync_status = 'success';
ALTER TABLE product_sync_schedule
    DROP COLUMN sync_slot, DROP COLUMN last_sync_error, DROP COLUMN last_boeing_price,
    DROP COLUMN last_boeing_quantity, DROP COLUMN last_boeing_in_stock,
    DROP CONSTRAINT product_sync_schedule_last_sync_status_check,
    ADD CONSTRAINT product_sync_schedule_last_sync_status_check CHECK (
        last_sync_status IN ('pending', 'unchanged', 'updated', 'failed'));
COMMENT ON COLUMN product_sync_schedule.last_sync_status IS NULL;
COMMENT ON COLUMN sync_audit_log.error_code IS 'The documents'' column; not written.';
COMMENT ON COLUMN sync_audit_log.task_id IS 'The documents'' column; not written.';
