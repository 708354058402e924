ALTER TABLE sync_jobs DROP COLUMN day_calls, DROP COLUMN day_calls_at;
