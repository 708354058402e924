"""Read the listings to push: desired and applied state, and their ids in the shop."""

from typing import Any

from headway.core.catalog.product_details import ProductDetails
from headway.core.catalog.storefront import Change, Draft, Gid, Ids, ProductStatus
from headway.store.sql_files import read_sql

DUE = read_sql("catalog", "push_due")
CHANGES = DUE.partition("  AND state.push_at")[0]


def read_change(
    *,
    shop_sku: str,
    product_id: Gid | None,
    variant_id: Gid | None,
    item_id: Gid | None,
    status: str | None,
    former_status: str | None,
    title: str | None,
    description_html: str,
    vendor: str,
    details: dict[str, Any] | None,
    suspicion: dict[str, int] | None,
    **columns: Any,  # noqa: ANN401 - the other columns of `CHANGES`
) -> Change:
    """Return a listing to push; only a listing that is not in the shop yet has a draft."""
    ids = draft = None
    if product_id is not None and variant_id is not None and item_id is not None:
        ids = Ids(product=product_id, variant=variant_id, item=item_id)
    if title is not None:
        draft = Draft(
            shop_sku=shop_sku,
            title=title,
            description_html=description_html,
            vendor=vendor,
            details=ProductDetails.from_json(details or {}),
        )
    return Change(
        shop_sku=shop_sku,
        ids=ids,
        status=None if status is None else ProductStatus(status),
        former_status=None if former_status is None else ProductStatus(former_status),
        draft=draft,
        suspicion=suspicion or {},
        **columns,
    )
