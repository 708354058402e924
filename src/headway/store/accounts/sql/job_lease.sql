-- Lease jobs that this transaction has locked, under a new fence.
-- Guarantees: one running job per account (unique index sync_jobs_running). A run that was
-- interrupted keeps its start, its count of calls and the webhooks that came during it; a new run
-- starts counting. A run that follows webhooks moves `wake_from` by the spacing of its tier, starting
-- at most one burst ago: so a few such runs may follow at once.
-- index: sync_jobs_pkey
UPDATE sync_jobs AS job SET status = 'running', fence = fence + 1, lease_owner = %(owner)s,
  lease_until = %(lease_until)s, wait_reason = '', updated_at = %(now)s,
  woken_at = CASE WHEN cursor ? 'run' THEN woken_at END,
  wake_from = CASE WHEN job_type = 'webhook_triggered' AND NOT cursor ? 'run'
    THEN greatest(wake_from, %(now)s - (%(bursts)s::jsonb ->> tier)::interval)
      + (%(spacings)s::jsonb ->> tier)::interval ELSE wake_from END,
  started_at = CASE WHEN cursor ? 'run' THEN coalesce(started_at, %(now)s) ELSE %(now)s END,
  run_calls = CASE WHEN cursor ? 'run' THEN run_calls ELSE 0 END
FROM connected_accounts AS account
WHERE job.id = ANY (%(ids)s::uuid[]) AND account.id = job.account_id
RETURNING job.id::text, job.kind, job.job_type, job.tier, job.fence, job.cursor, job.started_at,
  job.next_run_at, job.retry_count, job.calls_estimate, job.run_calls, job.completed_at IS NULL,
  job.created_at,
  account.id::text, account.user_id, account.platform, account.shop, account.owner_id
