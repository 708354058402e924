"""Read the listings to push: desired and applied state, and their ids in the shop."""

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import Connection

from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.storefront import Change, Draft, Ids, ProductStatus

CHANGES = """
SELECT state.user_id, state.sku, coalesce(product.shop_sku, staging.shop_sku, state.sku),
  state.desired, state.desired_version, state.applied,
  product.shopify_product_id, product.shopify_variant_id, product.shopify_inventory_item_id,
  product.status, product.former_status, product.variants_count, state.push_failures,
  coalesce(state.push_error, ''), state.applied_version = 0 AND state.applied_at IS NULL,
  CASE WHEN product.sku IS NULL THEN (SELECT other.sku FROM product AS other
    WHERE other.user_id = state.user_id
      AND other.shop_sku = coalesce(staging.shop_sku, state.sku)) END,
  CASE staging.status WHEN 'normalized' THEN staging.title END, staging.description,
  staging.vendor
FROM listing_state AS state LEFT JOIN product USING (user_id, sku)
LEFT JOIN product_staging AS staging USING (user_id, sku)
WHERE state.user_id = %(user_id)s AND state.desired IS NOT NULL
"""


def read_changes(
    connection: Connection[tuple[Any, ...]], statement: str, values: Mapping[str, Any]
) -> list[Change]:
    """Return the listings that a statement made of `CHANGES` finds."""
    return [_change(row) for row in connection.execute(statement, values)]


def _change(row: Sequence[Any]) -> Change:
    (user_id, sku, shop_sku, desired, version, applied, product, variant, item, status, former,
     variants_count, failures, error, is_first, rival, title, description,
     vendor) = row  # fmt: skip
    has_ids = product is not None and variant is not None and item is not None
    return Change(
        user_id=SellerId(user_id),
        sku=Sku(sku),
        shop_sku=shop_sku,
        desired=desired,
        desired_version=version,
        applied=applied,
        ids=Ids(product=product, variant=variant, item=item) if has_ids else None,
        status=status and ProductStatus(status),
        former_status=former and ProductStatus(former),
        variants_count=variants_count,
        failures=failures,
        error=error,
        is_first=is_first,
        rival=rival and Sku(rival),
        draft=None
        if title is None
        else Draft(shop_sku=shop_sku, title=title, description=description, vendor=vendor),
    )
