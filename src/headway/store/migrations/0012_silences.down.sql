ALTER TABLE sync_jobs DROP COLUMN silences;
