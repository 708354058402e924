"""SQL conditions for claims: a row is paused at this instant.

Each text is a condition over an alias that has `user_id`, and `sku` where a listing is meant; it
needs the value `now`, and `supplier` where the condition uses it. The row in `pauses` decides,
whatever is marked.
"""

IN_FORCE = "(pause.until IS NULL OR pause.until > %(now)s)"
# Evaluated once per statement, not once per row.
ALL_PAUSED = f"EXISTS (SELECT FROM pauses AS pause WHERE pause.kind = 'all' AND {IN_FORCE})"
SUPPLIER_PAUSED = f"""EXISTS (SELECT FROM pauses AS pause
  WHERE pause.kind IN ('all', 'supplier')
    AND (pause.supplier IS NULL OR pause.supplier = %(supplier)s) AND {IN_FORCE})"""


def is_seller_paused(row: str) -> str:
    """Return the condition that a row's seller is paused."""
    return f"""EXISTS (SELECT FROM pauses AS pause WHERE pause.kind = 'seller'
  AND pause.user_id = {row}.user_id AND {IN_FORCE})"""


def is_listing_paused(row: str) -> str:
    """Return the condition that the pause of a single listing covers a row."""
    return f"""EXISTS (SELECT FROM pauses AS pause WHERE pause.kind = 'listing'
  AND pause.user_id = {row}.user_id AND pause.sku = {row}.sku AND {IN_FORCE})"""


def is_unmarked(row: str) -> str:
    """Return the condition that a row of the schedule is paused and may not be marked yet.

    There may be very many pauses whose listings are all marked; the condition skips them.
    """
    return f"""EXISTS (SELECT FROM pauses AS pause WHERE pause.marked_at IS NULL
  AND pause.user_id = {row}.user_id AND (pause.sku IS NULL OR pause.sku = {row}.sku)
  AND {IN_FORCE})"""
