-- pre: old processes do not know the column and do not read it.
-- An uninstall that a webhook reports ends a connection only once the shop refuses its token.
ALTER TABLE connected_accounts ADD COLUMN uninstalled_at timestamptz;
COMMENT ON COLUMN connected_accounts.uninstalled_at IS
    'When a webhook reported that the app was uninstalled; null again once the shop answers.';
