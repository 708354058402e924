-- Lock the chosen jobs. Jobs in other hands are skipped, not waited for.
-- index: sync_jobs_pkey
SELECT id::text FROM sync_jobs WHERE id = ANY (%(ids)s::uuid[]) AND status = 'queued'
FOR NO KEY UPDATE SKIP LOCKED
