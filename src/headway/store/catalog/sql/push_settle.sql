-- Write the result of a push: applied states, products, staging, intents and events.
-- Guarantees: one statement, so one transaction and one round trip; if the shop's fence has moved
-- on, nothing at all is written (law L5). Rows are locked in the order of their keys, as the settle
-- of a read, imports and people's commands do.
-- A revived listing that has its status back is the merchant's own again: status leaves desired.
-- index: connected_accounts_pkey, listing_state_pkey, product_pkey, push_intent_pkey
WITH ours AS (
  UPDATE connected_accounts SET
    push_owner = CASE WHEN %(keeps_lease)s THEN push_owner END,
    push_lease_until = CASE WHEN %(keeps_lease)s THEN push_lease_until END,
    locations = coalesce(%(locations)s::jsonb, locations),
    scopes = CASE WHEN %(locations)s::jsonb IS NULL THEN scopes ELSE %(scopes)s::text[] END,
    locations_at = CASE WHEN %(forgets_locations)s THEN NULL
      WHEN %(locations)s::jsonb IS NULL THEN locations_at ELSE %(now)s END,
    channels = coalesce(%(channels)s::jsonb, channels),
    channels_at = CASE WHEN %(forgets_channels)s THEN NULL
      WHEN %(channels)s::jsonb IS NULL THEN channels_at ELSE %(now)s END,
    missing_scopes = CASE WHEN %(channels)s::jsonb IS NULL THEN missing_scopes
      ELSE %(missing_scopes)s::text[] END,
    updated_at = %(now)s
  WHERE id = %(id)s AND push_fence = %(fence)s AND push_owner IS NOT NULL
  RETURNING user_id
), new AS (
  SELECT ours.user_id, result.*, (
    -- A shop may show more than the documents' column holds.
    SELECT greatest(least(sum(value::bigint), 2147483647), -2147483648)::int
    FROM jsonb_each_text(result.applied -> 'quantities')) AS stock
  FROM ours, jsonb_to_recordset(%(rows)s::jsonb) AS result(
    sku text, shop_sku text, title text, version bigint, applied jsonb, forgets_applied boolean,
    product_id text, variant_id text, item_id text, forgets_ids boolean, handle text,
    status text, former_status text, variants_count int, shown jsonb, tracked boolean,
    inventory_policy text, is_verified boolean,
    retry_at timestamptz, failures int, error text, suspicion jsonb, staging text,
    held_reason text, desired jsonb, is_repriced boolean)
), listed AS (
  SELECT user_id, sku FROM listing_state AS row JOIN new USING (user_id, sku)
  WHERE row.sku = ANY (%(skus)s) ORDER BY user_id, sku FOR UPDATE OF row
), stocked AS (
  SELECT user_id, sku FROM product AS row JOIN new USING (user_id, sku)
  WHERE row.sku = ANY (%(skus)s) ORDER BY user_id, sku FOR UPDATE OF row
), states AS (
  UPDATE listing_state AS row SET
    applied = CASE WHEN new.forgets_applied THEN NULL
      WHEN new.applied = row.desired AND row.desired ->> 'status' <> 'DRAFT'
        THEN new.applied - 'status'
      ELSE coalesce(new.applied, row.applied) END,
    -- A read that found what was known leaves the instant of the last change.
    applied_at = CASE WHEN new.applied IS NULL OR (new.applied = row.applied
      AND row.applied_at IS NOT NULL) THEN row.applied_at ELSE %(now)s END,
    applied_version = CASE WHEN new.applied = row.desired THEN row.desired_version
                           ELSE row.applied_version END,
    push_at = CASE
      WHEN new.applied = row.desired THEN NULL
      WHEN new.retry_at IS NOT NULL AND row.desired_version = new.version THEN new.retry_at
      WHEN new.applied IS NULL AND NOT new.forgets_applied THEN row.push_at
      -- Half done, it keeps its place: what it still lacks travels with what others lack.
      ELSE least(row.push_at, %(now)s) END,
    push_failures = new.failures, push_error = nullif(new.error, ''),
    push_suspicion = nullif(coalesce(new.suspicion, row.push_suspicion), jsonb_build_object()),
    shown = CASE WHEN new.forgets_applied THEN NULL ELSE coalesce(new.shown, row.shown) END,
    moved_at = CASE WHEN new.is_repriced THEN %(now)s ELSE row.moved_at END,
    verified_at = CASE WHEN new.is_verified THEN %(now)s ELSE row.verified_at END,
    held_reason = coalesce(new.held_reason, row.held_reason),
    held_at = CASE WHEN new.held_reason IS NULL THEN row.held_at ELSE %(now)s END,
    proposed = CASE WHEN new.held_reason IS NULL THEN row.proposed ELSE row.desired END,
    desired = CASE WHEN new.desired IS NOT NULL THEN new.desired
      WHEN new.applied = row.desired AND row.desired ->> 'status' <> 'DRAFT'
        THEN row.desired - 'status'
      ELSE row.desired END,
    desired_version = row.desired_version + CASE WHEN new.desired IS NULL THEN 0 ELSE 1 END
  FROM new JOIN listed USING (user_id, sku)
  WHERE row.user_id = new.user_id AND row.sku = ANY (%(skus)s) AND row.sku = new.sku
    AND (new.desired IS NULL OR row.desired_version = new.version)
), added AS (
  INSERT INTO product AS row (user_id, sku, shop_sku, title, shopify_product_id,
    shopify_variant_id, shopify_inventory_item_id, shopify_handle, status, former_status,
    variants_count, tracked, inventory_policy, price, cost_per_item, currency,
    inventory_quantity, created_at, updated_at)
  SELECT user_id, sku, shop_sku, title, product_id, variant_id, item_id, handle, status,
    former_status, variants_count, tracked, inventory_policy, (applied ->> 'price')::numeric,
    (applied ->> 'cost')::numeric, applied ->> 'currency', stock, %(now)s, %(now)s
  FROM new LEFT JOIN stocked USING (user_id, sku) WHERE variant_id IS NOT NULL
  ORDER BY user_id, sku
  ON CONFLICT (user_id, sku) DO UPDATE SET
    shopify_product_id = excluded.shopify_product_id,
    shopify_variant_id = excluded.shopify_variant_id,
    shopify_inventory_item_id = excluded.shopify_inventory_item_id,
    shopify_handle = coalesce(excluded.shopify_handle, row.shopify_handle),
    status = coalesce(excluded.status, row.status),
    former_status = coalesce(excluded.former_status, row.former_status),
    variants_count = coalesce(excluded.variants_count, row.variants_count),
    tracked = coalesce(excluded.tracked, row.tracked),
    inventory_policy = coalesce(excluded.inventory_policy, row.inventory_policy),
    price = excluded.price, cost_per_item = excluded.cost_per_item,
    currency = excluded.currency, inventory_quantity = excluded.inventory_quantity,
    updated_at = %(now)s
), kept AS (
  UPDATE product AS row SET
    shopify_product_id = CASE WHEN new.forgets_ids THEN NULL ELSE row.shopify_product_id END,
    shopify_variant_id = CASE WHEN new.forgets_ids THEN NULL ELSE row.shopify_variant_id END,
    shopify_inventory_item_id =
      CASE WHEN new.forgets_ids THEN NULL ELSE row.shopify_inventory_item_id END,
    status = coalesce(new.status, row.status),
    former_status = coalesce(new.former_status, row.former_status),
    tracked = coalesce(new.tracked, row.tracked),
    inventory_policy = coalesce(new.inventory_policy, row.inventory_policy),
    price = coalesce((new.applied ->> 'price')::numeric, row.price),
    cost_per_item = coalesce((new.applied ->> 'cost')::numeric, row.cost_per_item),
    currency = coalesce(new.applied ->> 'currency', row.currency),
    inventory_quantity = coalesce(new.stock, row.inventory_quantity),
    updated_at = %(now)s
  FROM new JOIN stocked USING (user_id, sku)
  WHERE row.user_id = new.user_id AND row.sku = ANY (%(skus)s) AND row.sku = new.sku
    AND new.variant_id IS NULL
    AND (new.applied IS NOT NULL OR new.forgets_ids OR new.status IS NOT NULL
      OR new.tracked IS DISTINCT FROM row.tracked
      OR new.inventory_policy IS DISTINCT FROM row.inventory_policy)
), staged AS (
  -- What the shop confirmed is copied, so that the row says the same as the product's.
  UPDATE product_staging AS row SET status = coalesce(new.staging, row.status),
    reason = CASE WHEN new.staging IS NULL THEN row.reason ELSE new.error END,
    shopify_product_id = coalesce(new.product_id, row.shopify_product_id),
    list_price = coalesce((state.observed ->> 'list_price')::numeric, row.list_price),
    net_price = coalesce((state.observed ->> 'net_price')::numeric, row.net_price),
    price = coalesce((new.applied ->> 'price')::numeric, row.price),
    cost_per_item = coalesce((new.applied ->> 'cost')::numeric, row.cost_per_item),
    currency = coalesce(new.applied ->> 'currency', row.currency),
    inventory_quantity = coalesce(new.stock, row.inventory_quantity),
    inventory_status = CASE WHEN new.stock > 0 THEN 'in_stock' WHEN new.stock <= 0
      THEN 'out_of_stock' ELSE row.inventory_status END,
    updated_at = %(now)s
  FROM new LEFT JOIN listing_state AS state USING (user_id, sku)
  WHERE row.user_id = new.user_id AND row.sku = ANY (%(skus)s) AND row.sku = new.sku
    AND (new.staging IS NOT NULL OR new.applied IS NOT NULL)
), woken AS (
  -- Parts that could not be published are tried again with the channels that were read.
  UPDATE listing_state AS row SET push_at = %(now)s FROM ours
  WHERE %(channels)s::jsonb IS NOT NULL AND row.user_id = ours.user_id AND row.push_at > %(now)s
    AND row.desired -> 'channels' IS DISTINCT FROM row.applied -> 'channels'
), intents AS (
  UPDATE push_intent AS row SET state = ended.state, result = ended.result, closed_at = %(now)s
  FROM ours, jsonb_to_recordset(%(ends)s::jsonb) AS ended(id uuid, state text, result text)
  WHERE row.id = ended.id AND row.state = 'open'
), narrowed AS (
  UPDATE push_intent AS row SET
    skus = CASE WHEN change.skus IS NULL THEN row.skus
                ELSE ARRAY(SELECT jsonb_array_elements_text(change.skus)) END,
    kind = coalesce(change.kind, row.kind), progress = coalesce(change.progress, row.progress)
  FROM ours, jsonb_to_recordset(%(narrows)s::jsonb)
    AS change(id uuid, skus jsonb, kind text, progress jsonb)
  WHERE row.id = change.id AND row.state = 'open'
), events AS (
  INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value, new_value,
    error_message, error_code, batch_id, task_id, created_at)
  SELECT ours.user_id, event.sku, %(now)s, event.kind, event.old, event.new, event.error,
    event.code, %(call_id)s::uuid,
    (SELECT push_owner FROM connected_accounts WHERE id = %(id)s), %(now)s
  FROM ours, jsonb_to_recordset(%(events)s::jsonb) AS event(
    sku text, kind text, old jsonb, new jsonb, error text, code text)
)
SELECT count(*) FROM ours
