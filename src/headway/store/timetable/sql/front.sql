-- The listings that may take part in the next call of one supplier: the first few of each priority,
-- by due time, whether due or not (core decides that).
-- Guarantees: nothing paused, inactive or being read; the cost does not grow with the table, since
-- each priority is one short range scan.
-- {limit} is a number in the text and not a bound value: with a generic plan for any limit PostgreSQL
-- would plan the statement each time.
-- The index leaves out listings whose pause is marked; the subquery on pauses finds the others.
-- index: product_sync_schedule_front, pauses_unmarked
SELECT front.id::text, user_id, sku, front.priority, next_sync_at, suspicion,
  last_successful_sync IS NOT NULL AS is_proven
FROM unnest(ARRAY['manual', 'onboarding', 'scheduled', 'retry']) AS queue(priority)
CROSS JOIN LATERAL (
  SELECT * FROM product_sync_schedule AS row
  WHERE is_active AND sync_status <> 'syncing' AND NOT row.is_paused
    AND supplier = %(supplier)s AND row.priority = queue.priority
    AND sku <> ALL(%(without)s) AND suspicion <= %(suspicion_max)s
    AND NOT EXISTS (SELECT FROM pauses AS pause
      WHERE pause.marked_at IS NULL AND pause.user_id = row.user_id
        AND (pause.sku IS NULL OR pause.sku = row.sku)
        AND (pause.until IS NULL OR pause.until > %(now)s))
  ORDER BY next_sync_at LIMIT {limit:d}) AS front
WHERE NOT EXISTS (SELECT FROM pauses AS pause
  WHERE pause.kind IN ('all', 'supplier')
    AND (pause.supplier IS NULL OR pause.supplier = %(supplier)s)
    AND (pause.until IS NULL OR pause.until > %(now)s))
ORDER BY next_sync_at, id
