-- End a permit: write the new state of one limit key, and the outcome of the call in the ledger.
-- Guarantees: the write counts only if the row is still the one that was read, so that no permit is
-- granted twice (law L1); returns the new xmin, or no row. A row that another caller has locked is
-- skipped: waiting for it would mean deciding by an old clock.
-- index: limiter_pkey, call_ledger_pkey
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
  UPDATE call_ledger AS call SET status = %(status)s, finished_at = %(finished_at)s,
    arrived_by = %(arrived_by)s, result = %(result)s, http_status = %(http_status)s,
    seats_paid = %(seats_paid)s, skus = %(skus)s
  FROM swapped WHERE call.permit_id = %(permit_id)s AND call.limit_key = swapped.limit_key
)
SELECT xmin FROM swapped
