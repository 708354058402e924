"""Listings whose change waits for a person: how the tests of decisions enter and read them."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from headway.core.catalog.listings import SellerId, Sku

HOUR = timedelta(hours=1)
A, B = SellerId("a"), SellerId("b")
P1, P2, P3 = Sku("P1"), Sku("P2"), Sku("P3")
JUMP = "the price would rise by 127 %"
UNPRICED = "no price was quoted"
Ask = Callable[..., list[tuple[Any, ...]]]
Put = Callable[..., None]
State = dict[str, Any]


def shows(price: str, stock: int = 5, **more: Any) -> State:
    return {
        "price": price, "cost": "8", "currency": "USD", "compare_at": None,
        "quantities": {"Miami": stock}, **more,
    }  # fmt: skip


def state(ask: Ask, seller: SellerId, sku: Sku) -> State:
    columns = "desired, desired_version, desired_at, push_at, held_reason, proposed, rejected"
    where = "user_id = %s AND sku = %s"
    (row,) = ask(f"SELECT {columns} FROM listing_state WHERE {where}", seller, sku)
    return dict(zip(columns.split(", "), row, strict=True))


def events(ask: Ask, kind: str) -> list[tuple[Any, ...]]:
    return ask(
        "SELECT user_id, sku, sync_timestamp, old_value, new_value, error_message"
        " FROM sync_audit_log WHERE event_type = %s ORDER BY user_id, sku",
        kind,
    )


def wrote(ask: Ask, sku: Sku, at: datetime, old: State | None, new: State) -> None:
    """Record that the shop confirmed a write."""
    ask(
        "INSERT INTO sync_audit_log"
        " (user_id, sku, sync_timestamp, event_type, old_value, new_value)"
        " VALUES ('a', %s, %s, 'shopify_updated', %s::text::jsonb, %s::text::jsonb)",
        *(sku, at, None if old is None else json.dumps(old), json.dumps(new)),
    )
