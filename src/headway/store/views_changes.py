"""The latest changes, and what became of each in its shop: written, waiting, held or refused.

A few hundred events from the end of the history, and those of the parts that are shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from psycopg import Connection

from headway.core.model import SellerId, Sku

EVENTS_MAX = 500
ROWS_SHOWN = 10
EVENTS_PER_ROW = 3
WRITES = ("shopify_updated", "product_published")

# What a first read showed is news only of a part that is being published.
CHANGES = """
SELECT sync_timestamp, user_id, sku, event_type, old_value, new_value, coalesce(error_message, '')
FROM (SELECT * FROM sync_audit_log WHERE sync_timestamp <= %(now)s {whose}
      ORDER BY sync_timestamp DESC LIMIT %(events)s) AS recent
WHERE event_type IN ('price_changed', 'quantity_changed', 'cost_changed', 'change_held',
                     'not_listed', 'drift_found')
  OR (event_type = 'first_observed' AND EXISTS (SELECT FROM product_staging AS staging
      WHERE staging.user_id = recent.user_id AND staging.sku = recent.sku))
ORDER BY sync_timestamp DESC, user_id, sku LIMIT %(most)s
"""
ECHOES = """
SELECT user_id, sku, sync_timestamp, event_type, old_value ->> 'price', new_value ->> 'price',
  coalesce(error_message, '')
FROM sync_audit_log
WHERE sku = ANY(%(skus)s) AND user_id = ANY(%(user_ids)s)
  AND sync_timestamp >= %(since)s AND sync_timestamp <= %(now)s
  AND event_type IN ('shopify_updated', 'product_published', 'publish_blocked', 'change_rejected')
ORDER BY sync_timestamp LIMIT %(events)s
"""
STANDINGS = """
SELECT state.user_id, state.sku,
  coalesce(nullif(state.observed ->> 'list_price', '0'), state.observed ->> 'net_price'),
  state.applied ->> 'price', state.desired ->> 'price', state.held_reason,
  state.push_at IS NOT NULL, coalesce(state.push_error, ''), account.status,
  coalesce(account.reason, '')
FROM unnest(%(user_ids)s::text[], %(skus)s::text[]) AS asked(user_id, sku)
JOIN listing_state AS state USING (user_id, sku)
LEFT JOIN connected_accounts AS account
  ON account.user_id = state.user_id AND account.platform = 'shopify'
"""

Key = tuple[str, str]


class Fate(StrEnum):
    """What became of a change in the shop."""

    WRITTEN = "written"
    WAITING = "waiting"
    HELD = "held"
    REFUSED = "refused"
    REJECTED = "rejected"
    REPLACED = "replaced"
    UNNEEDED = "unneeded"
    NO_SHOP = "no shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a read showed to be different, and what became of it; None where nothing was said.

    `price_now` is what the supplier asks, changed or not. `shop_new` is the price that was written,
    or is to be; what is held leaves the shop as it is.
    """

    at: datetime
    user_id: SellerId
    sku: Sku
    kind: str
    price_old: Decimal | None = None
    price_new: Decimal | None = None
    price_now: Decimal | None = None
    stock_old: int | None = None
    stock_new: int | None = None
    note: str = ""
    shop_old: Decimal | None = None
    shop_new: Decimal | None = None
    fate: Fate = Fate.UNNEEDED
    reason: str = ""
    written_at: datetime | None = None

    @property
    def lag_s(self) -> float | None:
        """The seconds between observed and written to the shop."""
        return None if self.written_at is None else (self.written_at - self.at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Echo:
    """One event that tells what became of a change."""

    at: datetime
    kind: str
    old: Decimal | None
    new: Decimal | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """How a listing stands with its supplier and its shop now."""

    price: Decimal | None = None
    applied: Decimal | None = None
    desired: Decimal | None = None
    held_reason: str | None = None
    is_due: bool = False
    error: str = ""
    account: str | None = None
    account_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aftermath:
    """All that is known of the listings that are shown."""

    echoes: Mapping[Key, Sequence[_Echo]] = field(default_factory=dict)
    standings: Mapping[Key, _Standing] = field(default_factory=dict)


def latest_changes(
    connection: Connection, now: datetime, *, seller: SellerId | None = None
) -> tuple[Change, ...]:
    """Return the latest changes, one for all that one read showed about one listing."""
    most = ROWS_SHOWN * EVENTS_PER_ROW
    values = {"now": now, "events": EVENTS_MAX, "most": most, "seller": seller}
    statement = CHANGES.format(whose="" if seller is None else "AND user_id = %(seller)s")
    merged: dict[tuple[datetime, str, str], dict[str, Any]] = {}
    for at, user_id, sku, kind, old, new, note in connection.execute(statement, values).fetchall():
        facts = merged.setdefault((at, user_id, sku), {"kind": "changed", "note": ""})
        facts |= _facts(kind, old or {}, new or {}, note)
    shown = list(merged.items())[:ROWS_SHOWN]
    after = _aftermath(connection, [key for key, _ in shown], now)
    changes: list[Change] = []
    later: dict[Key, datetime] = {}
    for (at, user_id, sku), facts in shown:
        key = (user_id, sku)
        fate = _fate(facts["kind"], key, at, later.get(key), after)
        price_now = facts.get("price_new")
        if price_now is None and key not in later:
            price_now = after.standings.get(key, _Standing()).price
        later[key] = at
        facts |= {"price_now": price_now, **fate}
        changes.append(Change(at=at, user_id=SellerId(user_id), sku=Sku(sku), **facts))
    return tuple(changes)


def _aftermath(
    connection: Connection, keys: Sequence[tuple[datetime, str, str]], now: datetime
) -> _Aftermath:
    if not keys:
        return _Aftermath()
    values = {
        "user_ids": [user_id for _, user_id, _ in keys],
        "skus": [sku for _, _, sku in keys],
        "since": min(at for at, _, _ in keys),
        "now": now,
        "events": EVENTS_MAX,
    }
    echoes: dict[Key, list[_Echo]] = {}
    for user_id, sku, at, kind, old, new, error in connection.execute(ECHOES, values):
        echo = _Echo(at=at, kind=kind, old=_decimal(old), new=_decimal(new), error=error)
        echoes.setdefault((user_id, sku), []).append(echo)
    standings = {
        (user_id, sku): _standing(facts)
        for user_id, sku, *facts in connection.execute(STANDINGS, values)
    }
    return _Aftermath(echoes=echoes, standings=standings)


def _standing(facts: Sequence[Any]) -> _Standing:
    price, applied, desired, held_reason, is_due, error, account, account_reason = facts
    return _Standing(
        price=_decimal(price),
        applied=_decimal(applied),
        desired=_decimal(desired),
        held_reason=held_reason,
        is_due=is_due,
        error=error,
        account=account,
        account_reason=account_reason,
    )


def _fate(
    kind: str, key: Key, at: datetime, next_at: datetime | None, after: _Aftermath
) -> dict[str, Any]:
    """Say what became of a change that was seen then, and of which more was seen later, or not."""
    echoes = [
        each
        for each in after.echoes.get(key, ())
        if each.at >= at and (next_at is None or each.at < next_at)
    ]
    now = after.standings.get(key, _Standing())
    writes = [each for each in echoes if each.kind in WRITES]
    is_newest = next_at is None
    if is_newest and kind == "held" and now.held_reason is not None:
        return {"fate": Fate.HELD, "reason": now.held_reason, "shop_new": now.applied}
    if writes and not (is_newest and now.is_due):
        prices = {"shop_old": writes[0].old, "shop_new": writes[-1].new}
        return {"fate": Fate.WRITTEN, "written_at": writes[-1].at, **prices}
    for each in echoes:
        if each.kind == "publish_blocked":
            return {"fate": Fate.REFUSED, "reason": each.error}
        if each.kind == "change_rejected":
            return {"fate": Fate.REJECTED, "reason": each.error, "shop_new": now.applied}
    if not is_newest:
        return {"fate": Fate.REPLACED}
    return _open(now)


def _open(now: _Standing) -> dict[str, Any]:
    """Say what a change waits for that the shop does not show yet."""
    prices = {"shop_old": now.applied, "shop_new": now.desired}
    if now.account is None:
        return {"fate": Fate.NO_SHOP, "reason": "no shop is connected"}
    if not now.is_due:
        return {"fate": Fate.UNNEEDED, "shop_new": now.applied}
    if now.account != "connected":
        return {"fate": Fate.WAITING, "reason": f"disconnected: {now.account_reason}", **prices}
    if now.error:
        return {"fate": Fate.REFUSED, "reason": now.error, **prices}
    return {"fate": Fate.WAITING, **prices}


def _facts(kind: str, old: Mapping[str, Any], new: Mapping[str, Any], note: str) -> dict[str, Any]:
    """Translate one event into the fields of a change."""
    price = {"price_old": _money(old, "list_price"), "price_new": _money(new, "list_price")}
    stock = {"stock_old": _stock(old), "stock_new": _stock(new)}
    net = f"{_money(old, 'net_price')} to {_money(new, 'net_price')}"
    known: dict[str, dict[str, Any]] = {
        "price_changed": price,
        "quantity_changed": stock,
        "cost_changed": {"note": f"cost {net}"},
        "not_listed": {"kind": "not listed", **stock},
        "first_observed": {"kind": "new part", **price, **stock, "stock_old": None},
        "drift_found": {"kind": "edited in the shop"},
        "change_held": {"kind": "held", "note": note},
    }
    return known[kind]


def _money(values: Mapping[str, Any], name: str) -> Decimal | None:
    return _decimal(values.get(name))


def _decimal(text: Any) -> Decimal | None:  # noqa: ANN401 - JSON's word for a number
    return None if text is None else Decimal(str(text))


def _stock(values: Mapping[str, Any]) -> int:
    return sum((values.get("quantities") or {}).values())
