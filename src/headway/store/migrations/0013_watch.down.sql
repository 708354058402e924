-- Events and notices of kinds that the older schema does not know are lost.
DELETE FROM sync_audit_log WHERE event_type IN ('alert_fired', 'alert_resolved');
ALTER TABLE sync_audit_log DROP CONSTRAINT sync_audit_log_event_type_check;
ALTER TABLE sync_audit_log ADD CONSTRAINT sync_audit_log_event_type_check CHECK (event_type IN (
    'sync_started', 'sync_completed', 'sync_failed', 'price_changed', 'quantity_changed',
    'stock_status_changed', 'shopify_updated', 'shopify_update_failed', 'product_deactivated',
    'dispatch_started', 'first_observed', 'cost_changed', 'change_held', 'sku_missing',
    'not_listed', 'lease_rescued', 'listing_revived',
    'change_approved', 'change_rejected', 'rolled_back', 'product_published', 'publish_blocked',
    'drift_found', 'ids_resolved', 'slot_moved',
    'job_started', 'job_completed', 'job_yielded', 'job_rescheduled', 'job_failed', 'job_dead',
    'job_cancelled', 'job_rescued', 'job_revived', 'job_woken', 'plan_limit_reached',
    'plan_limit_lifted', 'account_connected', 'account_disconnected', 'token_refreshed',
    'sync_paused', 'sync_resumed', 'sync_triggered',
    'key_created', 'key_revoked', 'link_created', 'session_begun', 'session_ended', 'tier_set'
));
DROP TABLE outbox;
DROP TABLE alert_states;
DROP INDEX notices_undelivered;
DELETE FROM notices WHERE topic = 'price_held';
ALTER TABLE notices DROP CONSTRAINT notices_topic_check;
ALTER TABLE notices ADD CONSTRAINT notices_topic_check CHECK (
    topic IN ('job_dead', 'account_disconnected', 'token_expiring')
);
