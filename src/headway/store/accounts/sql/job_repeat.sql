-- Queue jobs that have become due again, and write an event for each whose plan limit ended.
-- Guarantees: a bounded number per claim, longest due first; jobs in other hands are skipped.
-- index: sync_jobs_repeat
WITH due AS (
  SELECT id, status FROM sync_jobs
  WHERE status IN ('completed', 'failed', 'plan_limit_reached') AND next_run_at <= %(now)s
  ORDER BY next_run_at LIMIT 32 FOR NO KEY UPDATE SKIP LOCKED
), queued AS (
  UPDATE sync_jobs AS job SET status = 'queued', updated_at = %(now)s
  FROM due WHERE job.id = due.id
  RETURNING job.id, job.user_id, job.platform, job.kind, due.status
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
SELECT user_id, id, %(now)s, 'plan_limit_lifted',
  jsonb_build_object('platform', platform, 'kind', kind), %(now)s
FROM queued WHERE status = 'plan_limit_reached'
