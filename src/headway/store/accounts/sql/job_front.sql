-- The longest due jobs of every platform and score that may run.
-- Guarantees: the cost does not grow with the queue, since each platform and score is one short range
-- scan; none of a paused seller or of an account that is already running.
-- {depth} is a number in the text for the same reason as in timetable/sql/front.sql.
-- index: sync_jobs_claim
SELECT job.id::text, job.account_id::text, job.user_id, job.platform, job.score, job.tier,
  job.job_type, job.next_run_at, job.calls_estimate, job.run_calls,
  (profile.orders_month = %(month)s AND profile.orders_count >=
    (%(quotas)s::jsonb ->> profile.tier)::integer) IS TRUE,
  job.kind, job.day_calls, job.day_calls_at, job.started_at
FROM unnest(%(platforms)s::text[], %(scores)s::smallint[]) AS class (platform, score)
CROSS JOIN LATERAL (
  SELECT * FROM sync_jobs AS queued
  WHERE status = 'queued' AND platform = class.platform AND score = class.score
    AND next_run_at <= %(now)s AND account_id <> ALL (%(busy)s::uuid[])
    AND NOT EXISTS (SELECT FROM pauses AS pause
      WHERE pause.kind = 'seller' AND pause.user_id = queued.user_id
        AND (pause.until IS NULL OR pause.until > %(now)s))
  ORDER BY next_run_at LIMIT {depth:d}) AS job
LEFT JOIN profiles AS profile ON profile.user_id = job.user_id
WHERE NOT EXISTS (SELECT FROM pauses AS pause
  WHERE pause.kind = 'all' AND (pause.until IS NULL OR pause.until > %(now)s))
