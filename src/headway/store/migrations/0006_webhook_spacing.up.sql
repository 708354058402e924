-- pre: old processes do not read the column; they run a job for every webhook, as before.
-- When webhooks may wake a job again, so that a flood of them costs no more than ordinary runs.
ALTER TABLE sync_jobs ADD COLUMN wake_from timestamptz;
COMMENT ON COLUMN sync_jobs.wake_from IS
    'Webhooks do not make the job due before this: it moves on with every run that follows webhooks.';
