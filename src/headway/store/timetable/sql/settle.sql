-- Write what a call found: outcomes, next due times, states, staging and events.
-- Guarantees: one statement, so one transaction and one round trip; a row whose fence has moved on
-- writes no state and no event (law L5), and the count returned says how many were written. Rows are
-- locked in the order of their keys, as pushes, imports and people's commands do.
-- A desired state equal to the stored one keeps its version: there is nothing to push. If a push
-- held a price while the supplier was being read, its decision stands and the rest is written. If
-- someone made the listing due meanwhile, its priority and due time stay as they were asked for.
-- extends: settle_unchanged
-- index: product_sync_schedule_pkey, product_staging_user_sku_unique
), states AS (
  INSERT INTO listing_state AS row (user_id, sku, observed, observed_at, desired, desired_at,
    desired_version, held_reason, held_at, proposed, rejected, push_at)
  SELECT new.user_id, new.sku, new.observed, %(now)s, new.desired,
    CASE WHEN new.desired IS NOT NULL THEN %(now)s END,
    CASE WHEN new.desired IS NULL THEN 0 ELSE 1 END,
    new.held_reason, CASE WHEN new.held_reason IS NOT NULL THEN %(now)s END,
    new.proposed, new.rejected, CASE WHEN new.desired IS NOT NULL THEN %(now)s END
  FROM new JOIN settled USING (id) WHERE new.changes_state ORDER BY new.user_id, new.sku
  ON CONFLICT (user_id, sku) DO UPDATE SET (observed, observed_at, desired, desired_at,
    desired_version, held_reason, held_at, proposed, rejected, moved_at, emptied_at, push_at) = (
    SELECT coalesce(new.observed, row.observed),
      CASE WHEN new.observed IS NULL THEN row.observed_at ELSE %(now)s END,
      next.desired,
      CASE WHEN next.is_other THEN %(now)s ELSE row.desired_at END,
      row.desired_version + CASE WHEN next.is_other THEN 1 ELSE 0 END,
      next.held_reason,
      CASE WHEN next.held_reason IS NOT NULL THEN coalesce(row.held_at, %(now)s) END,
      CASE WHEN judged.is_stale THEN row.proposed ELSE new.proposed END,
      CASE WHEN judged.is_stale THEN row.rejected ELSE new.rejected END,
      CASE WHEN new.is_repriced THEN %(now)s ELSE row.moved_at END,
      CASE WHEN new.is_emptied THEN %(now)s ELSE row.emptied_at END,
      CASE WHEN next.is_other OR (next.desired IS NOT NULL
        AND new.staging ->> 'status' = 'normalized') THEN %(now)s ELSE row.push_at END
    FROM new
    CROSS JOIN LATERAL (SELECT row.desired_version <> new.desired_version
      OR (row.held_reason IS NOT NULL) <> new.was_held AS is_stale) AS judged
    CROSS JOIN LATERAL (SELECT CASE WHEN judged.is_stale THEN row.held_reason
        ELSE new.held_reason END AS held_reason,
      CASE WHEN new.desired IS NULL THEN row.desired
           WHEN judged.is_stale THEN row.desired
                || (new.desired - ARRAY['price', 'cost', 'compare_at', 'currency', 'unit',
                  'pack', 'doubts'])
           ELSE new.desired END AS desired) AS chosen
    CROSS JOIN LATERAL (SELECT chosen.*, chosen.desired IS DISTINCT FROM row.desired AS is_other
      ) AS next
    WHERE new.user_id = excluded.user_id AND new.sku = excluded.sku)
), staged AS (
  UPDATE product_staging AS row SET status = part.status, reason = part.reason,
    title = part.title, description_html = part.description_html, vendor = part.vendor,
    list_price = part.list_price, net_price = part.net_price, price = part.price,
    cost_per_item = part.cost_per_item, currency = part.currency,
    inventory_quantity = part.inventory_quantity, inventory_status = part.inventory_status,
    location_summary = part.location_summary, details = part.details, updated_at = %(now)s
  FROM new JOIN settled USING (id) CROSS JOIN LATERAL jsonb_to_record(new.staging) AS part(
    status text, reason text, title text, description_html text, vendor text, list_price numeric,
    net_price numeric, price numeric, cost_per_item numeric, currency text,
    inventory_quantity int, inventory_status text, location_summary text, details jsonb)
  WHERE new.staging IS NOT NULL AND row.user_id = new.user_id AND row.sku = new.sku
    AND row.status IN ('requested', 'blocked')
), raw AS (
  INSERT INTO boeing_raw_data (user_id, sku, batch_id, raw_payload, created_at)
  SELECT new.user_id, new.sku, new.batch_id, new.staging -> 'raw', %(now)s
  FROM new JOIN settled USING (id) WHERE jsonb_typeof(new.staging -> 'raw') = 'object'
), events AS (
  INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value, new_value,
    error_message, error_code, batch_id, task_id, created_at)
  SELECT new.user_id, new.sku, %(now)s, new.kind, new.old, new.new, new.error, new.code,
    %(call_id)s::uuid, ours.lease_owner, %(now)s
  FROM jsonb_to_recordset(%(events)s::jsonb) AS new(
    id uuid, user_id text, sku text, kind text, old jsonb, new jsonb, error text, code text)
  JOIN settled USING (id) JOIN ours USING (id)
)
SELECT count(*) FROM settled
