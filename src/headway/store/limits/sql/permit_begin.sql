-- Issue a permit: write the new state of one limit key, and the call in the ledger.
-- Guarantees: as permit_write.sql, in one statement with the ledger.
-- extends: permit_write
-- index: limiter_pkey
), noted AS (
  INSERT INTO call_ledger (permit_id, limit_key, owner, purpose, cost, begun_at, lease_until)
  SELECT %(permit_id)s::uuid, limit_key, %(owner)s, %(purpose)s, %(cost)s,
    %(begun_at)s::timestamptz, %(lease_until)s::timestamptz
  FROM swapped
)
SELECT xmin FROM swapped
