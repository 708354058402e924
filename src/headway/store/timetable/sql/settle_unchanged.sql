-- Write what a call found when nothing changed, as in most calls: the rows move on, and there is no
-- state and no event to write, unless each read is recorded for those who know the documents.
-- Guarantees: as settle.sql, which extends it.
-- The ids come a second time as an array, from which the planner sees how few they are.
-- index: product_sync_schedule_pkey
WITH new AS (
  SELECT * FROM jsonb_to_recordset(%(rows)s::jsonb) AS new(
    id uuid, fence bigint, user_id text, sku text, sync_status text, priority text,
    was_priority text, next_sync_at timestamptz, was_due_at timestamptz, stops boolean, outcome text, error text,
    failures int, missing_count int, suspicion int, hash text, price numeric, quantity int,
    locations jsonb, observed jsonb, desired jsonb, desired_version bigint, was_held boolean,
    held_reason text, proposed jsonb, rejected jsonb, is_repriced boolean, is_emptied boolean, staging jsonb,
    batch_id uuid, changes_state boolean, family text, changes_seen float8, watched_days float8,
    changed_at timestamptz)
), ours AS (
  SELECT id, lease_owner FROM product_sync_schedule
  WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR UPDATE
), settled AS (
  UPDATE product_sync_schedule AS row SET
    sync_status = new.sync_status, lease_owner = NULL, lease_until = NULL,
    (priority, next_sync_at) = (SELECT CASE WHEN is_requested THEN row.priority ELSE new.priority END,
      CASE WHEN is_requested THEN row.next_sync_at ELSE new.next_sync_at END
      FROM (SELECT (row.priority, row.next_sync_at) <> (new.was_priority, new.was_due_at) AS is_requested
        ) AS meanwhile),
    is_active = row.is_active AND NOT new.stops,
    last_sync_at = %(now)s, last_sync_status = new.outcome, last_error = new.error,
    last_successful_sync = CASE WHEN new.outcome = 'failed' THEN row.last_successful_sync
                                ELSE %(now)s END,
    consecutive_failures = new.failures, missing_count = new.missing_count,
    suspicion = new.suspicion,
    last_boeing_hash = coalesce(new.hash, row.last_boeing_hash),
    last_price = CASE WHEN new.hash IS NULL THEN row.last_price ELSE new.price END,
    last_quantity = coalesce(new.quantity, row.last_quantity),
    last_inventory_status = CASE WHEN new.quantity IS NULL THEN row.last_inventory_status
                                 WHEN new.quantity > 0 THEN 'in_stock' ELSE 'out_of_stock' END,
    last_locations = coalesce(new.locations, row.last_locations),
    family = coalesce(row.family, new.family), swept_from = NULL,
    changes_seen = coalesce(new.changes_seen, row.changes_seen),
    watched_days = coalesce(new.watched_days, row.watched_days),
    changed_at = coalesce(new.changed_at, row.changed_at),
    updated_at = %(now)s
  FROM new JOIN ours USING (id)
  WHERE row.id = ANY(%(ids)s::uuid[]) AND row.id = new.id AND row.fence = new.fence
    AND row.sync_status = 'syncing'
  RETURNING row.id, row.user_id, row.sku, row.last_sync_started_at, row.last_sync_status
), reads AS (
  INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, new_value, batch_id,
    task_id, created_at)
  SELECT settled.user_id, event.sku, event.at, event.kind, event.value, %(call_id)s::uuid,
    ours.lease_owner, %(now)s
  FROM settled JOIN ours USING (id) CROSS JOIN LATERAL (
    VALUES (settled.sku, settled.last_sync_started_at, 'sync_started', NULL::jsonb),
      (settled.sku, %(now)s, 'sync_completed',
       jsonb_build_object('status', settled.last_sync_status)),
      (NULL, settled.last_sync_started_at, 'dispatch_started', NULL)
    ) AS event(sku, at, kind, value)
  WHERE (%(read_events)s = 'on' OR %(read_events)s = 'auto' AND EXISTS (SELECT FROM adoption))
    AND (event.kind <> 'sync_completed' OR settled.last_sync_status <> 'failed')
    -- Of a call, each seller's first listing reports the dispatch.
    AND (event.kind <> 'dispatch_started' OR settled.id = (SELECT min(first.id::text)::uuid
      FROM settled AS first WHERE first.user_id = settled.user_id))
)
SELECT count(*) FROM settled
