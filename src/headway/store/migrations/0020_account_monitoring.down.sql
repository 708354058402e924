DELETE FROM notices WHERE topic = 'plan_limit_reached';
ALTER TABLE notices
    DROP CONSTRAINT notices_topic_check,
    ADD CONSTRAINT notices_topic_check CHECK (topic IN (
        'job_dead', 'account_disconnected', 'token_expiring', 'price_held'));
ALTER TABLE outbox DROP COLUMN is_resolved;
ALTER TABLE connected_accounts DROP COLUMN is_leaving;
