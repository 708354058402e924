-- Write the new state of one limit key.
-- Guarantees: the write counts only if the row is still the one that was read, so that no permit is
-- granted twice (law L1); returns the new xmin, or no row. A row that another caller has locked is
-- skipped: waiting for it would mean deciding by an old clock.
-- index: limiter_pkey
WITH same AS (
  SELECT limit_key FROM limiter
  WHERE limit_key = %(limit_key)s AND xmin::text = %(xmin)s
    AND pg_postmaster_start_time() = %(started_at)s
  FOR UPDATE SKIP LOCKED
), swapped AS (
  UPDATE limiter AS row SET state = %(state)s::jsonb, lineage = %(lineage)s,
    updated_at = %(updated_at)s
  FROM same WHERE row.limit_key = same.limit_key RETURNING row.limit_key, row.xmin::text
)
SELECT xmin FROM swapped
