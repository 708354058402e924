ALTER TABLE sync_jobs DROP COLUMN wake_from;
