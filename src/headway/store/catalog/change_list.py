"""Observed changes, newest first, each with its result in the shop: written, held, refused.

A page reads a few hundred events of the history at a time, from where the previous page ended, and
then the later events of the listings shown. So every page costs the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from psycopg import Connection
from pydantic import computed_field

from headway.core.catalog.change_outcomes import (
    ChangeOutcome,
    ChangeStanding,
    ShopEvent,
    ShopWait,
    change_fields,
    find_outcome,
)
from headway.core.catalog.listings import SellerId, Sku
from headway.core.dispatch import STOREFRONT
from headway.errors import InvalidError
from headway.store import cursors
from headway.store.pause_sql import IN_FORCE
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

# How many events are read at once for each row of a page, and how many times. The first screen
# reads fewer, since it is refreshed all the time.
EVENTS_MIN, EVENTS_PER_ROW = 100, 10
WALKS_MAX, WALKS_FIRST = 10, 5
ROWS_SHOWN = 10
LIMIT_MAX = 200
SHOP_EVENTS_MAX = 50
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
            WHERE sync_timestamp <= %(from_at)s {{near}} {{of_seller}} {{after}}
            ORDER BY sync_timestamp DESC, user_id, coalesce(sku, '') LIMIT %(events)s) AS recent
     ) AS walked
WHERE is_change OR place = %(events)s
ORDER BY place
"""
# With this bound the planner skips older months, whose planning takes longer than the query.
NEAR, NEAR_SPAN = "AND sync_timestamp > %(near)s", timedelta(days=7)
AFTER = """AND (sync_timestamp < %(from_at)s
  OR (user_id, coalesce(sku, '')) {sign} (%(after_user)s, %(after_sku)s))"""
# The time of the next event of each listing, after the one shown. The oldest one shown is a
# separate value: it lets the planner skip earlier months; planning them costs more than the lookup.
NEXT = f"""
SELECT requested.user_id, requested.sku, later.sync_timestamp
FROM unnest(%(user_ids)s::text[], %(skus)s::text[], %(newest)s::timestamptz[])
  AS requested(user_id, sku, newest)
CROSS JOIN LATERAL (
  SELECT sync_timestamp FROM sync_audit_log
  WHERE sku = requested.sku AND user_id = requested.user_id AND event_type IN {KINDS}
    AND sync_timestamp > requested.newest AND sync_timestamp <= %(now)s
    AND sync_timestamp > %(oldest)s
  ORDER BY sync_timestamp LIMIT 1) AS later
"""
SHOP_EVENTS = """
SELECT requested.user_id, requested.sku, event.sync_timestamp AS at, event.event_type AS kind,
  (event.old_value ->> 'price')::numeric AS old, (event.new_value ->> 'price')::numeric AS new,
  coalesce(event.error_message, '') AS error
FROM unnest(%(user_ids)s::text[], %(skus)s::text[], %(since)s::timestamptz[],
  %(until)s::timestamptz[]) AS requested(user_id, sku, since, until)
CROSS JOIN LATERAL (
  SELECT * FROM sync_audit_log
  WHERE sku = requested.sku AND user_id = requested.user_id
    AND sync_timestamp >= requested.since AND sync_timestamp <= requested.until
    AND sync_timestamp >= %(oldest)s AND sync_timestamp <= %(now)s
    AND event_type IN ('shopify_updated', 'product_published', 'publish_blocked', 'change_rejected')
  ORDER BY sync_timestamp LIMIT %(events)s) AS event
"""
STANDINGS = f"""
SELECT state.user_id, state.sku,
  coalesce(nullif(state.observed ->> 'list_price', '0'), state.observed ->> 'net_price')::numeric
    AS price,
  (state.applied ->> 'price')::numeric AS applied, (state.desired ->> 'price')::numeric AS desired,
  state.held_reason, state.push_at IS NOT NULL AS is_due, state.push_at AS due_at,
  coalesce(state.push_error, '') AS error, account.status AS account,
  coalesce(account.reason, '') AS account_reason, pause.until AS paused_until,
  pause.reason AS pause_reason
FROM unnest(%(user_ids)s::text[], %(skus)s::text[]) AS requested(user_id, sku)
JOIN listing_state AS state USING (user_id, sku)
LEFT JOIN connected_accounts AS account
  ON account.user_id = state.user_id AND account.platform = '{STOREFRONT}'
LEFT JOIN LATERAL (
  SELECT until, reason FROM pauses AS pause
  WHERE {IN_FORCE} AND kind IN ('all', 'seller', 'listing')
    AND (user_id IS NULL OR user_id = state.user_id) AND (sku IS NULL OR sku = state.sku)
  ORDER BY until DESC NULLS FIRST LIMIT 1) AS pause ON true
"""

Key = tuple[str, str]
Place = tuple[datetime, str, str]
Merged = dict[Place, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedChange:
    """A change that a read observed, and its result; None where a value is unknown.

    `price_now` is what the supplier asks, changed or not. `shop_new` is the price that was written,
    or is to be; what is held leaves the shop as it is. What waits is tried again at `until`.
    """

    at: datetime
    """When the read observed it."""
    seller: SellerId
    sku: Sku
    kind: str
    """What changed. Example: `changed`"""
    price_old: Decimal | None = None
    price_new: Decimal | None = None
    price_now: Decimal | None = None
    stock_old: int | None = None
    stock_new: int | None = None
    note: str = ""
    """Anything else that changed, in words; empty if nothing did. Example: `back in stock`"""
    shop_old: Decimal | None = None
    """The shop's price before the change; null if it is unknown. Example: `118.00`"""
    shop_new: Decimal | None = None
    """The shop's price after the change; null if it is unknown. Example: `129.90`"""
    fate: ChangeOutcome = ChangeOutcome.UNNEEDED
    """Result of the change in the shop."""
    reason: str = ""
    """Why it is held, was refused or waits; empty if it was written.
    Example: `the price would rise by 127 %`
    """
    until: datetime | None = None
    """Until when it waits; null if nobody knows."""
    written_at: datetime | None = None
    """When the shop confirmed it; null if it has not."""

    @property
    def cursor(self) -> str:
        """The cursor of the page after this item."""
        return _Mark(at=self.at, user_id=self.seller, sku=self.sku).cursor

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
class _Aftermath:
    """The later events and the current state of the listings shown."""

    next_at: Mapping[Key, datetime] = field(default_factory=dict)
    events: Mapping[Key, Sequence[ShopEvent]] = field(default_factory=dict)
    standings: Mapping[Key, ChangeStanding] = field(default_factory=dict)

    def outcome(
        self, kind: str, key: Key, at: datetime, next_at: datetime | None
    ) -> dict[str, Any]:
        """Return the result of a change, judged by the events before the listing's next one."""
        events = [
            event
            for event in self.events.get(key, ())
            if event.at >= at and (next_at is None or event.at < next_at)
        ]
        standing = self.standings.get(key, ChangeStanding())
        return find_outcome(kind, events, standing, is_newest=next_at is None)


class ChangeQueries(Queries):
    """The changes, a page at a time."""

    def page(
        self,
        now: datetime,
        *,
        waits: Mapping[SellerId, ShopWait],
        seller: SellerId | None = None,
        cursor: str | None = None,
        limit: int,
    ) -> ChangePage:
        """Return the next changes; raises InvalidError for a cursor of another list."""
        after, limit = _mark_of(cursor), max(1, min(limit, LIMIT_MAX))
        with guarded(), self._pool.connection() as connection:
            return _page(connection, now, seller, after, limit, waits=waits)


def latest_changes(
    connection: Connection,
    now: datetime,
    *,
    waits: Mapping[SellerId, ShopWait],
    seller: SellerId | None = None,
) -> tuple[ObservedChange, ...]:
    """Return the latest changes, one for all that one read showed about one listing.

    `waits` says which shops are left alone for now: see `shop_waits`.
    """
    page = _page(connection, now, seller, None, ROWS_SHOWN, waits=waits, walks=WALKS_FIRST)
    return page.items


def _page(
    connection: Connection,
    now: datetime,
    seller: SellerId | None,
    after: _Mark | None,
    limit: int,
    *,
    waits: Mapping[SellerId, ShopWait],
    walks: int = WALKS_MAX,
) -> ChangePage:
    merged: Merged = {}
    mark, events = after, max(EVENTS_MIN, EVENTS_PER_ROW * limit)
    for _ in range(walks):
        mark = _walk(connection, now, seller, mark, merged, events=events)
        if mark is None or len(merged) > limit:
            break
    shown = list(merged.items())[:limit]
    after_them = _aftermath(connection, [key for key, _ in shown], now, waits)
    changes = _with_results(shown, after_them)
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
        statement = CHANGES.format(near=near, of_seller=of_seller, after=beyond)
        rows = connection.execute(statement, values).fetchall()
        if rows and rows[-1][-1] == events:
            break
    for at, user_id, sku, kind, old, new, note, is_change, place in rows:  # noqa: B007 - the last
        if is_change:
            facts = merged.setdefault((at, user_id, sku), {"kind": "changed", "note": ""})
            facts |= change_fields(kind, old or {}, new or {}, note)
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
        outcome = after.outcome(facts["kind"], key, at, later.get(key))
        price_now = facts.get("price_new")
        if price_now is None and key not in later:
            price_now = after.standings.get(key, ChangeStanding()).price
        later[key] = at
        columns = {**facts, "price_now": price_now, **outcome}
        changes.append(ObservedChange(at=at, seller=SellerId(user_id), sku=Sku(sku), **columns))
    return tuple(changes)


def _mark_of(cursor: str | None) -> _Mark | None:
    """Decode the cursor of a page; raise InvalidError if it belongs to another list."""
    if cursor is None:
        return None
    name, at, user_id, sku, is_shown = cursors.decode(cursor, str, datetime, str, str, int)
    if name != MARK:
        raise InvalidError(cursors.INVALID)
    return _Mark(at=at, user_id=user_id, sku=sku, is_shown=bool(is_shown))


def _aftermath(
    connection: Connection,
    places: Sequence[Place],
    now: datetime,
    waits: Mapping[SellerId, ShopWait],
) -> _Aftermath:
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
        "events": SHOP_EVENTS_MAX,
    }
    next_at = {
        (user_id, sku): at for user_id, sku, at in connection.execute(NEXT, values).fetchall()
    }
    values["until"] = [next_at.get(key, now) for key in newest]
    events: dict[Key, list[ShopEvent]] = {}
    for key, event in read_as(connection, _event, SHOP_EVENTS, values):
        events.setdefault(key, []).append(event)
    standings = dict(read_as(connection, partial(_standing, waits), STANDINGS, values))
    return _Aftermath(next_at=next_at, events=events, standings=standings)


def _event(user_id: str, sku: str, **columns: Any) -> tuple[Key, ShopEvent]:  # noqa: ANN401
    return (user_id, sku), ShopEvent(**columns)


def _standing(
    waits: Mapping[SellerId, ShopWait],
    *,
    user_id: SellerId,
    sku: str,
    paused_until: datetime | None,
    pause_reason: str | None,
    **columns: Any,  # noqa: ANN401 - a row
) -> tuple[Key, ChangeStanding]:
    """Return the state of a listing; a pause is a reason to wait before any other."""
    wait = waits.get(user_id)
    if pause_reason is not None:
        why = f"paused: {pause_reason}" if pause_reason else "paused"
        wait = ShopWait(until=paused_until, reason=why)
    return (user_id, sku), ChangeStanding(**columns, wait=wait)
