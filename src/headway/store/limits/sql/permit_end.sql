-- End a permit: write the new state of one limit key, and the outcome of the call in the ledger.
-- Guarantees: as permit_write.sql, in one statement with the ledger.
-- extends: permit_write
-- index: limiter_pkey, call_ledger_pkey
), noted AS (
  UPDATE call_ledger AS call SET status = %(status)s, finished_at = %(finished_at)s,
    arrived_by = %(arrived_by)s, result = %(result)s, http_status = %(http_status)s,
    seats_paid = %(seats_paid)s, skus = %(skus)s
  FROM swapped WHERE call.permit_id = %(permit_id)s AND call.limit_key = swapped.limit_key
)
SELECT xmin FROM swapped
