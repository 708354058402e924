-- The changes that are due for a shop, oldest first.
-- Guarantees: no listing that is paused, or that an open intent may already have written.
-- The other statements about changes share what is before the condition on push_at.
-- index: listing_state_push
SELECT state.user_id, state.sku, coalesce(product.shop_sku, staging.shop_sku, state.sku) AS shop_sku,
  state.desired, state.desired_version, state.applied, product.shopify_product_id AS product_id,
  product.shopify_variant_id AS variant_id, product.shopify_inventory_item_id AS item_id,
  product.status, product.former_status, product.variants_count, product.tracked,
  state.push_failures AS failures, coalesce(state.push_error, '') AS error,
  state.push_suspicion AS suspicion, state.shown,
  state.applied_version = 0 AND state.applied_at IS NULL AS is_first,
  CASE WHEN product.sku IS NULL THEN (SELECT other.sku FROM product AS other
    WHERE other.user_id = state.user_id
      AND other.shop_sku = coalesce(staging.shop_sku, state.sku)) END AS rival,
  coalesce(staging.status = 'created', false) AS is_created,
  CASE staging.status WHEN 'normalized' THEN staging.title END AS title, staging.description_html,
  staging.vendor, staging.details
FROM listing_state AS state LEFT JOIN product USING (user_id, sku)
LEFT JOIN product_staging AS staging USING (user_id, sku)
WHERE state.user_id = %(user_id)s AND state.desired IS NOT NULL
  AND state.push_at <= %(now)s AND state.sku <> ALL (%(skus)s)
  AND NOT EXISTS (SELECT FROM pauses AS pause
    WHERE pause.kind = 'listing' AND pause.user_id = state.user_id AND pause.sku = state.sku
      AND (pause.until IS NULL OR pause.until > %(now)s))
ORDER BY state.push_at, state.sku LIMIT %(limit)s
