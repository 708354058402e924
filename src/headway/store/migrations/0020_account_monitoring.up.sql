-- pre: old processes do not know the columns, and store none of the new notices.
-- A disconnection that somebody asked for is no alarm, sellers learn that their month is used up,
-- and a message that an alert is over is sent as good news.
ALTER TABLE connected_accounts ADD COLUMN is_leaving boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN connected_accounts.is_leaving IS
    'Whether somebody asked for the disconnection, in Headway or at the platform; false once it is connected again.';
ALTER TABLE outbox ADD COLUMN is_resolved boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN outbox.is_resolved IS 'Whether the message says that an alert is over.';
ALTER TABLE notices
    DROP CONSTRAINT notices_topic_check,
    ADD CONSTRAINT notices_topic_check CHECK (topic IN (
        'job_dead', 'account_disconnected', 'token_expiring', 'price_held', 'plan_limit_reached'));
