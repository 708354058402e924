-- Issue a permit: write the new state of one limit key, and the call in the ledger.
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
), noted AS (
  INSERT INTO call_ledger (permit_id, limit_key, owner, purpose, cost, begun_at, lease_until)
  SELECT %(permit_id)s::uuid, limit_key, %(owner)s, %(purpose)s, %(cost)s,
    %(begun_at)s::timestamptz, %(lease_until)s::timestamptz
  FROM swapped
)
SELECT xmin FROM swapped
