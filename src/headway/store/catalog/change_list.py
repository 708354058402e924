"""Observed changes, newest first, each with its result in the shop: written, held, refused.

A page is walked to: a few hundred events of the history at a time, from wherever the page before
ended, and then those of the parts that are shown. So the latest cost as much as the oldest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from psycopg import Connection
from pydantic import computed_field

from headway.core.catalog.listings import SellerId, Sku
from headway.errors import InvalidError
from headway.store import cursors
from headway.store.pool import Pool, guarded

# How many events are read at once for each row of a page, and how many times. The first screen
# reads fewer, since it is refreshed all the time.
EVENTS_MIN, EVENTS_PER_ROW = 100, 10
WALKS_MAX, WALKS_FIRST = 10, 5
ROWS_SHOWN = 10
LIMIT_MAX = 200
ECHOES_MAX = 50
WRITES = ("shopify_updated", "product_published")
MARK = "change"

KINDS = """('price_changed', 'quantity_changed', 'cost_changed', 'change_held', 'not_listed',
  'drift_found')"""
# A first read is a change only for a part that is being published. The last row of a full walk is
# always returned: the next walk continues there.
CHANGES = f"""
SELECT sync_timestamp, user_id, coalesce(sku, ''), event_type, old_value, new_value,
  coalesce(error_message, ''), is_change, place
FROM (SELECT recent.*, event_type IN {KINDS}
        OR (event_type = 'first_observed' AND EXISTS (SELECT FROM product_staging AS staging
            WHERE staging.user_id = recent.user_id AND staging.sku = recent.sku)) AS is_change,
        row_number() OVER (ORDER BY sync_timestamp DESC, user_id, coalesce(sku, '')) AS place
      FROM (SELECT * FROM sync_audit_log
            WHERE sync_timestamp <= %(from_at)s {{near}} {{whose}} {{after}}
            ORDER BY sync_timestamp DESC, user_id, coalesce(sku, '') LIMIT %(events)s) AS recent
     ) AS walked
WHERE is_change OR place = %(events)s
ORDER BY place
"""
# Of what lies so near the other months are left out of the plan, which takes longer than the walk.
NEAR, NEAR_SPAN = "AND sync_timestamp > %(near)s", timedelta(days=7)
AFTER = """AND (sync_timestamp < %(from_at)s
  OR (user_id, coalesce(sku, '')) {sign} (%(after_user)s, %(after_sku)s))"""
# The time of the next event of each listing, after the one shown. The oldest one shown is a
# separate value: it lets the planner skip earlier months; planning them costs more than the lookup.
NEXT = f"""
SELECT asked.user_id, asked.sku, later.sync_timestamp
FROM unnest(%(user_ids)s::text[], %(skus)s::text[], %(newest)s::timestamptz[])
  AS asked(user_id, sku, newest)
CROSS JOIN LATERAL (
  SELECT sync_timestamp FROM sync_audit_log
  WHERE sku = asked.sku AND user_id = asked.user_id AND event_type IN {KINDS}
    AND sync_timestamp > asked.newest AND sync_timestamp <= %(now)s
    AND sync_timestamp > %(oldest)s
  ORDER BY sync_timestamp LIMIT 1) AS later
"""
ECHOES = """
SELECT asked.user_id, asked.sku, echo.sync_timestamp, echo.event_type, echo.old_value ->> 'price',
  echo.new_value ->> 'price', coalesce(echo.error_message, '')
FROM unnest(%(user_ids)s::text[], %(skus)s::text[], %(since)s::timestamptz[],
  %(until)s::timestamptz[]) AS asked(user_id, sku, since, until)
CROSS JOIN LATERAL (
  SELECT * FROM sync_audit_log
  WHERE sku = asked.sku AND user_id = asked.user_id
    AND sync_timestamp >= asked.since AND sync_timestamp <= asked.until
    AND sync_timestamp >= %(oldest)s AND sync_timestamp <= %(now)s
    AND event_type IN ('shopify_updated', 'product_published', 'publish_blocked', 'change_rejected')
  ORDER BY sync_timestamp LIMIT %(echoes)s) AS echo
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
Place = tuple[datetime, str, str]
Merged = dict[Place, dict[str, Any]]


class ChangeOutcome(StrEnum):
    """Result of a change in the shop."""

    WRITTEN = "written"
    WAITING = "waiting"
    HELD = "held"
    REFUSED = "refused"
    REJECTED = "rejected"
    REPLACED = "replaced"
    UNNEEDED = "unneeded"
    NO_SHOP = "no shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedChange:
    """A change that a read observed, and its result; None where a value is unknown.

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
    fate: ChangeOutcome = ChangeOutcome.UNNEEDED
    reason: str = ""
    written_at: datetime | None = None

    @property
    def cursor(self) -> str:
        """The cursor of the page after this item."""
        return _Mark(at=self.at, user_id=self.user_id, sku=self.sku).cursor

    @computed_field  # type: ignore[prop-decorator]
    @property
    def lag_s(self) -> float | None:
        """Seconds from observing the change to writing it to the shop."""
        return None if self.written_at is None else (self.written_at - self.at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePage:
    """A page of changes, newest first, and the cursor of the next; None at the end.

    A page may be short, or empty, though there is more: go on as long as there is a cursor.
    """

    items: tuple[ObservedChange, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """How far the history was read; the changes of one read stay together."""

    at: datetime
    user_id: str = ""
    sku: str = ""
    is_shown: bool = True

    @property
    def cursor(self) -> str:
        return cursors.encode(MARK, self.at, self.user_id, self.sku, int(self.is_shown))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Echo:
    """One event that shows the result of a change."""

    at: datetime
    kind: str
    old: Decimal | None
    new: Decimal | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """The current state of a listing at its supplier and in its shop."""

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
    """The later events and the current state of the listings shown."""

    next_at: Mapping[Key, datetime] = field(default_factory=dict)
    echoes: Mapping[Key, Sequence[_Echo]] = field(default_factory=dict)
    standings: Mapping[Key, _Standing] = field(default_factory=dict)


class ChangeQueries:
    """The changes, a page at a time."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def page(
        self,
        now: datetime,
        *,
        seller: SellerId | None = None,
        cursor: str | None = None,
        limit: int,
    ) -> ChangePage:
        """Return the next changes; raises InvalidError for a cursor of another list."""
        after, limit = _mark_of(cursor), max(1, min(limit, LIMIT_MAX))
        with guarded(), self._pool.connection() as connection:
            return _page(connection, now, seller, after, limit)


def latest_changes(
    connection: Connection, now: datetime, *, seller: SellerId | None = None
) -> tuple[ObservedChange, ...]:
    """Return the latest changes, one for all that one read showed about one listing."""
    return _page(connection, now, seller, None, ROWS_SHOWN, walks=WALKS_FIRST).items


def _page(
    connection: Connection,
    now: datetime,
    seller: SellerId | None,
    after: _Mark | None,
    limit: int,
    *,
    walks: int = WALKS_MAX,
) -> ChangePage:
    merged: Merged = {}
    mark, events = after, max(EVENTS_MIN, EVENTS_PER_ROW * limit)
    for _ in range(walks):
        mark = _walk(connection, now, seller, mark, merged, events=events)
        if mark is None or len(merged) > limit:
            break
    shown = list(merged.items())[:limit]
    changes = _with_results(shown, _aftermath(connection, [key for key, _ in shown], now))
    if len(merged) > limit:
        return ChangePage(items=changes, next_cursor=changes[-1].cursor)
    return ChangePage(items=changes, next_cursor=None if mark is None else mark.cursor)


def _walk(
    connection: Connection,
    now: datetime,
    seller: SellerId | None,
    after: _Mark | None,
    merged: Merged,
    *,
    events: int,
) -> _Mark | None:
    """Add the changes among the next events; return where to go on, None at the end."""
    mark = after or _Mark(at=now)
    from_at = min(mark.at, now)
    values = {
        "from_at": from_at,
        "near": from_at - NEAR_SPAN,
        "after_user": mark.user_id,
        "after_sku": mark.sku,
        "seller": seller,
        "events": events,
    }
    of_seller = "" if seller is None else "AND user_id = %(seller)s"
    beyond = "" if after is None else AFTER.format(sign=">" if mark.is_shown else ">=")
    rows, place = list[Any](), 0
    for near in (NEAR, ""):
        statement = CHANGES.format(near=near, whose=of_seller, after=beyond)
        rows = connection.execute(statement, values).fetchall()
        if rows and rows[-1][-1] == events:
            break
    for at, user_id, sku, kind, old, new, note, is_change, place in rows:  # noqa: B007 - the last
        if is_change:
            facts = merged.setdefault((at, user_id, sku), {"kind": "changed", "note": ""})
            facts |= _facts(kind, old or {}, new or {}, note)
    if place < events:
        return None
    # More of this one may follow: it is read again as a whole.
    last = rows[-1][:3]
    merged.pop(last, None)
    return _Mark(at=last[0], user_id=last[1], sku=last[2], is_shown=False)


def _with_results(
    shown: Sequence[tuple[Place, dict[str, Any]]], after: _Aftermath
) -> tuple[ObservedChange, ...]:
    """Return each change with its result, newest first."""
    changes: list[ObservedChange] = []
    later = dict(after.next_at)
    for (at, user_id, sku), facts in shown:
        key = (user_id, sku)
        fate = _fate(facts["kind"], key, at, later.get(key), after)
        price_now = facts.get("price_new")
        if price_now is None and key not in later:
            price_now = after.standings.get(key, _Standing()).price
        later[key] = at
        columns = {**facts, "price_now": price_now, **fate}
        changes.append(ObservedChange(at=at, user_id=SellerId(user_id), sku=Sku(sku), **columns))
    return tuple(changes)


def _mark_of(cursor: str | None) -> _Mark | None:
    """Decode the cursor of a page; raise InvalidError if it belongs to another list."""
    if cursor is None:
        return None
    name, at, user_id, sku, is_shown = cursors.decode(cursor, str, datetime, str, str, int)
    if name != MARK:
        raise InvalidError(cursors.STRANGE)
    return _Mark(at=at, user_id=user_id, sku=sku, is_shown=bool(is_shown))


def _aftermath(connection: Connection, places: Sequence[Place], now: datetime) -> _Aftermath:
    if not places:
        return _Aftermath()
    newest: dict[Key, datetime] = {}
    oldest: dict[Key, datetime] = {}
    for at, user_id, sku in places:
        newest.setdefault((user_id, sku), at)
        oldest[(user_id, sku)] = at
    values: dict[str, Any] = {
        "user_ids": [user_id for user_id, _ in newest],
        "skus": [sku for _, sku in newest],
        "newest": list(newest.values()),
        "since": list(oldest.values()),
        "oldest": min(oldest.values()),
        "now": now,
        "echoes": ECHOES_MAX,
    }
    next_at = {
        (user_id, sku): at for user_id, sku, at in connection.execute(NEXT, values).fetchall()
    }
    values["until"] = [next_at.get(key, now) for key in newest]
    echoes: dict[Key, list[_Echo]] = {}
    for user_id, sku, at, kind, old, new, error in connection.execute(ECHOES, values).fetchall():
        echo = _Echo(at=at, kind=kind, old=_decimal(old), new=_decimal(new), error=error)
        echoes.setdefault((user_id, sku), []).append(echo)
    standings = {
        (user_id, sku): _standing(facts)
        for user_id, sku, *facts in connection.execute(STANDINGS, values).fetchall()
    }
    return _Aftermath(next_at=next_at, echoes=echoes, standings=standings)


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
    """Return the result of a change, judged by the events up to the listing's next change."""
    echoes = [
        echo
        for echo in after.echoes.get(key, ())
        if echo.at >= at and (next_at is None or echo.at < next_at)
    ]
    now = after.standings.get(key, _Standing())
    writes = [echo for echo in echoes if echo.kind in WRITES]
    is_newest = next_at is None
    if is_newest and kind == "held" and now.held_reason is not None:
        return {"fate": ChangeOutcome.HELD, "reason": now.held_reason, "shop_new": now.applied}
    if writes and not (is_newest and now.is_due):
        prices = {"shop_old": writes[0].old, "shop_new": writes[-1].new}
        return {"fate": ChangeOutcome.WRITTEN, "written_at": writes[-1].at, **prices}
    for echo in echoes:
        if echo.kind == "publish_blocked":
            return {"fate": ChangeOutcome.REFUSED, "reason": echo.error}
        if echo.kind == "change_rejected":
            return {"fate": ChangeOutcome.REJECTED, "reason": echo.error, "shop_new": now.applied}
    if not is_newest:
        return {"fate": ChangeOutcome.REPLACED}
    return _open(now)


def _open(now: _Standing) -> dict[str, Any]:
    """Return what a change waits for that the shop does not show yet."""
    prices = {"shop_old": now.applied, "shop_new": now.desired}
    if now.account is None:
        return {"fate": ChangeOutcome.NO_SHOP, "reason": "no shop is connected"}
    if not now.is_due:
        return {"fate": ChangeOutcome.UNNEEDED, "shop_new": now.applied}
    if now.account != "connected":
        return {
            "fate": ChangeOutcome.WAITING,
            "reason": f"disconnected: {now.account_reason}",
            **prices,
        }
    if now.error:
        return {"fate": ChangeOutcome.REFUSED, "reason": now.error, **prices}
    return {"fate": ChangeOutcome.WAITING, **prices}


def _facts(kind: str, old: Mapping[str, Any], new: Mapping[str, Any], note: str) -> dict[str, Any]:
    """Return the fields of a change from its event."""
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
