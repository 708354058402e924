-- Lease every free listing of some SKUs, of all sellers, and return it with its state.
-- Guarantees: a listing is under one lease at a time (law L5); each claim has a new fence; nothing
-- paused is claimed. Listings that another worker is claiming are skipped, not waited for.
-- index: product_sync_schedule_sku, listing_state_pkey
WITH free AS (
  SELECT id FROM product_sync_schedule AS row
  WHERE sku = ANY(%(skus)s) AND supplier = %(supplier)s AND is_active AND sync_status <> 'syncing'
    AND NOT EXISTS (SELECT FROM pauses AS pause
      WHERE pause.kind IN ('all', 'supplier')
        AND (pause.supplier IS NULL OR pause.supplier = %(supplier)s)
        AND (pause.until IS NULL OR pause.until > %(now)s))
    AND NOT row.is_paused
    AND NOT EXISTS (SELECT FROM pauses AS pause
      WHERE pause.marked_at IS NULL AND pause.user_id = row.user_id
        AND (pause.sku IS NULL OR pause.sku = row.sku)
        AND (pause.until IS NULL OR pause.until > %(now)s))
  ORDER BY id FOR UPDATE OF row SKIP LOCKED
), taken AS (
  UPDATE product_sync_schedule AS row SET
    sync_status = 'syncing', fence = row.fence + 1, lease_owner = %(owner)s,
    lease_until = %(lease_until)s, last_sync_started_at = %(now)s, updated_at = %(now)s,
    retried_at = CASE WHEN row.sku = ANY(%(retried)s) THEN %(now)s ELSE row.retried_at END
  FROM free WHERE row.id = free.id
  RETURNING row.*
)
SELECT taken.id::text, taken.user_id, taken.sku, taken.priority, taken.fence, taken.next_sync_at,
  taken.hour_bucket, taken.minute_offset, taken.created_at, taken.last_successful_sync,
  taken.consecutive_failures, taken.missing_count, taken.suspicion, taken.last_boeing_hash,
  state.observed, state.desired, coalesce(state.desired_version, 0) AS desired_version,
  state.applied ->> 'price' AS applied_price, state.held_reason, state.proposed, state.rejected,
  state.moved_at, state.emptied_at,
  CASE WHEN staging.status IN ('requested', 'blocked') THEN staging.batch_id::text END AS batch_id,
  staging.status IS NOT NULL AS is_published,
  taken.sync_priority, taken.value_weight, taken.family, taken.channels, taken.swept_from,
  taken.changes_seen, taken.watched_days, taken.changed_at
FROM taken LEFT JOIN listing_state AS state USING (user_id, sku)
LEFT JOIN product_staging AS staging ON staging.user_id = taken.user_id
  AND staging.sku = taken.sku
