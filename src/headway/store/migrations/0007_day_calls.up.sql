-- pre: old processes do not count their calls here; until they are replaced a job's share looks unused.
-- What each job uses of its platform's day, so that none takes more than its share while others wait.
ALTER TABLE sync_jobs
    ADD COLUMN day_calls double precision NOT NULL DEFAULT 0 CHECK (day_calls >= 0),
    ADD COLUMN day_calls_at timestamptz;
COMMENT ON COLUMN sync_jobs.day_calls IS 'Calls per day as of day_calls_at: each call counts less as time passes.';
