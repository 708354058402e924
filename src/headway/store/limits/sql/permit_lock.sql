-- Lock and read the states of some limit keys, in key order so that no two callers deadlock.
-- index: limiter_pkey
SELECT limit_key, rules, state, lineage, pg_postmaster_start_time() FROM limiter
WHERE limit_key = ANY (%(limit_keys)s) ORDER BY limit_key
FOR UPDATE
