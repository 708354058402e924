-- Record a committed page: the cursor moves on, failures in a row end
-- with progress of the list, the lease is extended.
-- Guarantees: nothing is written if the job's fence has moved on (law L5). Returns the calls of this
-- run, and True if the job must stop because of a pause.
-- index: sync_jobs_pkey
UPDATE sync_jobs AS job SET cursor = %(cursor)s::jsonb, 
  retry_count = CASE WHEN %(is_progress)s THEN 0 ELSE retry_count END, rescue_count = 0,
  run_calls = run_calls + %(calls)s, queries_used = queries_used + %(calls)s,
  day_calls = %(calls)s + CASE WHEN day_calls_at IS NULL THEN 0 ELSE day_calls
    * exp(-greatest(0, extract(epoch FROM %(now)s - day_calls_at)::float) / 86400) END,
  day_calls_at = %(now)s,
  lease_until = %(lease_until)s, updated_at = %(now)s
WHERE id = %(id)s AND fence = %(fence)s AND status = 'running'
RETURNING run_calls,
  EXISTS (SELECT FROM pauses AS pause
    WHERE pause.kind = 'all' AND (pause.until IS NULL OR pause.until > %(now)s))
  OR EXISTS (SELECT FROM pauses AS pause
    WHERE pause.kind = 'seller' AND pause.user_id = job.user_id
      AND (pause.until IS NULL OR pause.until > %(now)s))
