-- The listings that may take part in the next call of one supplier: the first few of each priority,
-- by due time, whether due or not (core decides that).
-- Guarantees: nothing paused, inactive or being read; the cost does not grow with the table, since
-- each priority is one short range scan.
-- {limit} is a number in the text and not a bound value: a generic plan for any limit would be so
-- much worse that PostgreSQL would plan anew each time.
-- The index leaves out listings whose pause is marked; the subquery on pauses finds the others.
-- index: product_sync_schedule_front, pauses_unmarked
SELECT id::text, user_id, sku, priority, next_sync_at, suspicion FROM (
  (SELECT * FROM product_sync_schedule AS row
   WHERE is_active AND sync_status <> 'syncing' AND NOT row.is_paused
     AND supplier = %(supplier)s AND priority = 'manual'
     AND sku <> ALL(%(without)s) AND suspicion <= %(suspicion_max)s
     AND NOT EXISTS (SELECT FROM pauses AS pause
       WHERE pause.marked_at IS NULL AND pause.user_id = row.user_id
         AND (pause.sku IS NULL OR pause.sku = row.sku)
         AND (pause.until IS NULL OR pause.until > %(now)s))
   ORDER BY next_sync_at LIMIT {limit:d})
  UNION ALL
  (SELECT * FROM product_sync_schedule AS row
   WHERE is_active AND sync_status <> 'syncing' AND NOT row.is_paused
     AND supplier = %(supplier)s AND priority = 'onboarding'
     AND sku <> ALL(%(without)s) AND suspicion <= %(suspicion_max)s
     AND NOT EXISTS (SELECT FROM pauses AS pause
       WHERE pause.marked_at IS NULL AND pause.user_id = row.user_id
         AND (pause.sku IS NULL OR pause.sku = row.sku)
         AND (pause.until IS NULL OR pause.until > %(now)s))
   ORDER BY next_sync_at LIMIT {limit:d})
  UNION ALL
  (SELECT * FROM product_sync_schedule AS row
   WHERE is_active AND sync_status <> 'syncing' AND NOT row.is_paused
     AND supplier = %(supplier)s AND priority = 'scheduled'
     AND sku <> ALL(%(without)s) AND suspicion <= %(suspicion_max)s
     AND NOT EXISTS (SELECT FROM pauses AS pause
       WHERE pause.marked_at IS NULL AND pause.user_id = row.user_id
         AND (pause.sku IS NULL OR pause.sku = row.sku)
         AND (pause.until IS NULL OR pause.until > %(now)s))
   ORDER BY next_sync_at LIMIT {limit:d})
  UNION ALL
  (SELECT * FROM product_sync_schedule AS row
   WHERE is_active AND sync_status <> 'syncing' AND NOT row.is_paused
     AND supplier = %(supplier)s AND priority = 'retry'
     AND sku <> ALL(%(without)s) AND suspicion <= %(suspicion_max)s
     AND NOT EXISTS (SELECT FROM pauses AS pause
       WHERE pause.marked_at IS NULL AND pause.user_id = row.user_id
         AND (pause.sku IS NULL OR pause.sku = row.sku)
         AND (pause.until IS NULL OR pause.until > %(now)s))
   ORDER BY next_sync_at LIMIT {limit:d})
) AS front
WHERE NOT EXISTS (SELECT FROM pauses AS pause
  WHERE pause.kind IN ('all', 'supplier')
    AND (pause.supplier IS NULL OR pause.supplier = %(supplier)s)
    AND (pause.until IS NULL OR pause.until > %(now)s))
ORDER BY next_sync_at, id
