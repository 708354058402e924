"""The dashboard queries of the documents, as they are written there."""

# Section 8.2 of the second implementation plan.
BY_STATUS = """
SELECT
    last_sync_status,
    COUNT(*) as count
FROM product_sync_schedule
WHERE last_sync_at > NOW() - INTERVAL '24 hours'
GROUP BY last_sync_status;
"""
BY_HOUR_WITH_CHANGES = """
SELECT
    hour_bucket,
    COUNT(*) as products,
    COUNT(*) FILTER (WHERE last_sync_status = 'updated') as with_changes
FROM product_sync_schedule
WHERE is_active = TRUE
GROUP BY hour_bucket
ORDER BY hour_bucket;
"""
RECENT_CHANGES = """
SELECT
    sku,
    sync_timestamp,
    event_type,
    old_value->>'price' as old_price,
    new_value->>'price' as new_price
FROM sync_audit_log
WHERE event_type IN ('price_changed', 'quantity_changed')
ORDER BY sync_timestamp DESC
LIMIT 50;
"""
# Section 8.1 there names these in words.
SYNCED_PER_HOUR = """
SELECT COUNT(*) FROM sync_audit_log
WHERE event_type = 'sync_completed' AND sync_timestamp > NOW() - INTERVAL '1 hour'
"""
OVERDUE = """
SELECT COUNT(*) FROM product_sync_schedule WHERE next_sync_at < NOW() - INTERVAL '1 hour'
"""
DEACTIVATED = "SELECT COUNT(*) FROM product_sync_schedule WHERE is_active=FALSE"
# Section 10.2 of the system design.
SYNCED_TODAY = """
SELECT COUNT(*) FROM product_sync_schedule
WHERE last_sync_at::date = CURRENT_DATE AND sync_status = 'success';
"""
SYNCING = """
SELECT COUNT(*) FROM product_sync_schedule
WHERE sync_status = 'syncing';
"""
BY_HOUR = """
SELECT hour_bucket, COUNT(*) FROM product_sync_schedule
WHERE is_active = TRUE
GROUP BY hour_bucket ORDER BY hour_bucket;
"""
PLAN_V2_QUERIES = (
    BY_STATUS, BY_HOUR_WITH_CHANGES, RECENT_CHANGES, SYNCED_PER_HOUR, OVERDUE, DEACTIVATED,
)  # fmt: skip
SYSTEM_DESIGN_QUERIES = (SYNCED_TODAY, BY_HOUR, DEACTIVATED)
