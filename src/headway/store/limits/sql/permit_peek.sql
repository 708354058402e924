-- Read the state of one limit key and the server's clock, without a lock.
-- xmin names the transaction that wrote the row, so it differs after every write.
-- index: limiter_pkey
SELECT rules, state, lineage, pg_postmaster_start_time(), xmin::text,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM limiter WHERE limit_key = %(limit_key)s
