ALTER TABLE connected_accounts DROP COLUMN push_called_at;
ALTER TABLE listing_state DROP COLUMN push_suspicion;
