-- End a claim of a job: status, next run, estimate, notice and event.
-- Guarantees: one statement, so one transaction; nothing is written if the job's fence has moved on.
-- A job woken by a webhook during the run is due at once, or from `wake_from` on; one that failed
-- waits as any failed job does. A job that dies again after it revived by itself notifies nobody. Its type otherwise, and the scores, are core's decision (core.accounts.claims).
-- index: sync_jobs_pkey
WITH ours AS (
  SELECT id, is_woken, revive_at AS former_revive_at, CASE WHEN is_woken THEN 'webhook_triggered' ELSE %(job_type)s END AS new_type
  FROM sync_jobs AS job CROSS JOIN LATERAL (
    SELECT NOT is_backfill AND woken_at IS NOT NULL AS is_woken
  ) AS webhooks
  WHERE id = %(id)s AND fence = %(fence)s AND status = 'running' FOR NO KEY UPDATE OF job
), ended AS (
  UPDATE sync_jobs AS job SET status = %(status)s, job_type = new_type,
    score = (%(scores_by_tier)s::jsonb -> tier ->> new_type)::smallint,
    next_run_at = CASE WHEN is_woken AND %(status)s = 'completed'
      THEN least(%(next_run_at)s::timestamptz, greatest(%(now)s, wake_from))
      ELSE %(next_run_at)s::timestamptz END,
    woken_at = CASE WHEN %(status)s = 'completed' THEN NULL ELSE woken_at END,
    lease_owner = NULL, lease_until = NULL,
    revive_at = CASE WHEN %(status)s = 'completed' THEN NULL
      ELSE coalesce(%(revive_at)s, revive_at) END,
    completed_at = CASE WHEN %(status)s = 'completed' THEN %(now)s ELSE completed_at END,
    retry_count = %(retry_count)s, wait_reason = %(wait_reason)s,
    last_error = CASE WHEN %(status)s = 'completed' THEN NULL
      ELSE coalesce(%(error)s, last_error) END,
    calls_estimate = coalesce(%(estimate)s, calls_estimate),
    run_calls = CASE WHEN %(status)s = 'completed' THEN 0 ELSE run_calls + %(calls)s END,
    queries_used = queries_used + %(calls)s,
    day_calls = %(calls)s + CASE WHEN day_calls_at IS NULL THEN 0 ELSE day_calls
      * exp(-greatest(0, extract(epoch FROM %(now)s - day_calls_at)::float) / 86400) END,
    day_calls_at = %(now)s,
    updated_at = %(now)s
  FROM ours WHERE job.id = ours.id
  RETURNING job.id, job.user_id, job.tier, job.next_run_at, ours.former_revive_at
), notice AS (
  INSERT INTO notices (user_id, topic, subject, text, created_at)
  SELECT user_id, 'job_dead', id || ' ' || %(fence)s, %(notice)s, %(now)s
  FROM ended WHERE %(status)s = 'dead' AND former_revive_at IS NULL
  ON CONFLICT DO NOTHING
), quota AS (
  INSERT INTO notices (user_id, topic, subject, text, created_at)
  SELECT user_id, 'plan_limit_reached', user_id || ' ' || tier || ' ' || %(this_month)s,
    %(plan_notice)s, %(now)s
  FROM ended WHERE %(status)s = 'plan_limit_reached'
  ON CONFLICT DO NOTHING
)
INSERT INTO sync_audit_log
  (user_id, job_id, sync_timestamp, event_type, new_value, error_message, created_at)
SELECT user_id, id, %(now)s, %(event)s,
  %(facts)s::jsonb || jsonb_build_object('next_run_at', next_run_at), %(error)s, %(now)s
FROM ended
