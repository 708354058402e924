ALTER TABLE connected_accounts DROP COLUMN uninstalled_at;
