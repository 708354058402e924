"""Status of the shops: up to date or not, what waits, what is held, how fast pushes are.

Only so many shops are counted as are shown, each count has a bound, and a large table is sampled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from psycopg import Connection

from headway.core.catalog.change_outcomes import ShopWait
from headway.core.catalog.listings import SellerId, Sku
from headway.core.dispatch import STOREFRONT
from headway.core.limits.rules import Resource
from headway.core.limits.state import at_us, load
from headway.core.limits.status import show
from headway.core.limits.transitions import enter
from headway.store.queries import read_as
from headway.store.sampling import share_of

DAY = timedelta(days=1)
COUNT_MAX = 10_000
EVENTS_MAX = 1_000
HELD_LOOKED_AT = 500
CALLS_LOOKED_AT = 50
ROWS_SHOWN = 10

# Shops that need a person come first. Each count is one index-only scan.
SHOPS = f"""
SELECT account.user_id, account.shop, account.status, account.reason, account.is_in_rehearsal,
  greatest(due.count - refused.count, 0), refused.count, worst.error, held.count, account.total
FROM (SELECT user_id, shop, status, reason, push_started_at IS NULL AS is_in_rehearsal,
        count(*) OVER () AS total
      FROM connected_accounts WHERE platform = '{STOREFRONT}' {{of_seller}}
      ORDER BY status = 'connected', user_id LIMIT %(shops)s) AS account
CROSS JOIN LATERAL (
  SELECT count(*) FROM (SELECT FROM listing_state
    WHERE user_id = account.user_id AND push_at IS NOT NULL LIMIT %(most)s) AS few) AS due
CROSS JOIN LATERAL (
  SELECT count(*) FROM (SELECT FROM listing_state
    WHERE user_id = account.user_id AND push_at IS NOT NULL AND push_failures > 0
    LIMIT %(most)s) AS few) AS refused
LEFT JOIN LATERAL (
  SELECT push_error AS error FROM listing_state
  WHERE user_id = account.user_id AND push_at IS NOT NULL AND push_failures > 0
  ORDER BY push_failures DESC, sku LIMIT 1) AS worst ON true
CROSS JOIN LATERAL (
  SELECT count(*) FROM (SELECT FROM listing_state
    WHERE user_id = account.user_id AND held_reason IS NOT NULL LIMIT %(most)s) AS few) AS held
ORDER BY account.status = 'connected', account.user_id
"""
DOMAINS = f"""
SELECT shop FROM connected_accounts WHERE platform = '{STOREFRONT}' {{of_seller}}
ORDER BY status = 'connected', user_id LIMIT %(shops)s
"""
IN_STEP = """
SELECT user_id, count(*) FILTER (WHERE applied IS NOT NULL AND push_at IS NULL),
  count(*) FILTER (WHERE desired IS NOT NULL)
FROM listing_state TABLESAMPLE SYSTEM (%(percent)s)
WHERE user_id = ANY(%(user_ids)s) GROUP BY user_id
"""
LIMITERS = "SELECT limit_key, state FROM limiter WHERE limit_key = ANY(%(keys)s)"
LAST_WRITES = """
SELECT requested.limit_key, last.begun_at, last.result
FROM unnest(%(keys)s::text[]) AS requested(limit_key)
CROSS JOIN LATERAL (
  SELECT begun_at, result FROM (
    SELECT begun_at, result, status FROM call_ledger
    WHERE limit_key = requested.limit_key AND begun_at <= %(now)s
    ORDER BY begun_at DESC LIMIT %(calls)s) AS recent
  WHERE status = 'sent' AND result ~ '^(stock|activate|price|status|create|bulk) of '
  ORDER BY begun_at DESC LIMIT 1) AS last
"""
HELD = """
SELECT user_id AS seller, sku, held_at AS at, held_reason AS reason,
  (desired ->> 'price')::numeric AS price_old, (proposed ->> 'price')::numeric AS price_new,
  proposed IS NOT NULL AS can_approve,
  (SELECT count(*) FROM (SELECT FROM listing_state WHERE held_reason IS NOT NULL {of_seller}
                         LIMIT %(most)s) AS all_of_them) AS total
FROM (SELECT * FROM listing_state WHERE held_reason IS NOT NULL {of_seller}
      LIMIT %(held)s) AS few
ORDER BY held_at DESC, user_id, sku LIMIT %(rows)s
"""
FAILING = """
SELECT state.user_id AS seller, state.sku, state.push_failures AS failures,
  coalesce(state.push_error, '') AS error, state.push_at AS next_at
FROM unnest(%(user_ids)s::text[]) AS requested(user_id)
CROSS JOIN LATERAL (
  SELECT * FROM listing_state
  WHERE user_id = requested.user_id AND push_at IS NOT NULL AND push_failures > 0
  ORDER BY push_failures DESC, sku LIMIT %(rows)s) AS state
ORDER BY state.push_failures DESC, state.user_id, state.sku LIMIT %(rows)s
"""
# An observation or decision about a listing starts a span; it ends with the last write in it. Only
# changes by the supplier are timed: people and edits in the shop take longer, and a takeover
# starts with the first read of the shop.
WRITTEN = """
WITH recent AS (
  SELECT user_id, sku, sync_timestamp AS at,
    event_type IN ('shopify_updated', 'product_published') AS is_write,
    event_type = 'product_published' AS is_birth, event_type = 'first_observed' AS is_first,
    event_type IN ('first_observed', 'price_changed', 'quantity_changed', 'cost_changed',
                   'not_listed') AS is_observed,
    event_type IN ('change_approved', 'change_rejected', 'rolled_back', 'listing_revived',
                   'listing_removed', 'drift_found', 'product_deactivated') AS is_decided
  FROM (SELECT * FROM sync_audit_log
        WHERE sync_timestamp > %(day_ago)s AND sync_timestamp <= %(now)s {of_seller}
        ORDER BY sync_timestamp DESC LIMIT %(events)s) AS events
), ordered AS (
  SELECT *, count(*) FILTER (WHERE is_observed OR is_decided)
    OVER (PARTITION BY user_id, sku ORDER BY at) AS chapter
  FROM recent
), chapters AS (
  SELECT min(at) FILTER (WHERE is_observed) AS observed_at,
    max(at) FILTER (WHERE is_write) AS written_at,
    bool_or(is_birth) OR NOT bool_or(is_first) AS is_ours
  FROM ordered GROUP BY user_id, sku, chapter
), timed AS (
  SELECT extract(epoch FROM written_at - observed_at)::float AS lag_s FROM chapters
  WHERE written_at IS NOT NULL AND observed_at IS NOT NULL AND is_ours
)
SELECT (SELECT count(*) FROM chapters WHERE written_at IS NOT NULL),
  (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY lag_s) FROM timed),
  (SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY lag_s) FROM timed),
  (SELECT count(*) FROM recent)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopStatus:
    """One shop: what is up to date, what is not, and why.

    Points are None until the shop was called; `trouble` says why nothing can be written now,
    `waits_until` when it is tried again.
    """

    seller: SellerId
    shop: str
    is_connected: bool
    """True if the shop accepts Headway's token."""
    is_in_rehearsal: bool
    trouble: str
    """Why nothing is written; empty if all is well. Example: `the shop refused the token`"""
    waits_until: datetime | None
    """Until when the shop's limit permits no call; null if it permits one."""
    listed: int
    """Listings in the shop."""
    in_step: int
    """Listings whose shop data equals what it should be."""
    waiting: int
    """Listings with a change that waits to be written."""
    failing: int
    """Listings whose write the shop refused."""
    failing_reason: str
    """The most common refusal; empty if there is none. Example: `the product was deleted`"""
    held: int
    """Listings with a held change."""
    points_used: float | None
    """Points of the shop's limit that are in use; null until the shop was called."""
    points_max: float | None
    """Points of the shop's limit; null until the shop was called."""
    pushed_at: datetime | None
    """When something was last written; null if nothing was."""
    pushed: str
    """What was last written. Example: `3 prices, 1 stock level`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldListing:
    """A held change; without a new price it cannot be approved."""

    seller: SellerId
    sku: Sku
    at: datetime
    """When it was held."""
    reason: str
    """Why it is held. Example: `the price would rise by 127 %`"""
    price_old: Decimal | None
    price_new: Decimal | None
    can_approve: bool
    """False if it can only be rejected, for lack of a usable price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedListing:
    """A listing whose write the shop refused, and when it is tried again."""

    seller: SellerId
    sku: Sku
    failures: int
    error: str
    """What the shop answered. Example: `the product was deleted`"""
    next_at: datetime
    """When the write is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatistics:
    """Changes written in 24 h, and the time from observed to written."""

    count: int
    """Changes written."""
    p50_s: float | None
    """Seconds from observed to written, the median; null if nothing was written."""
    p95_s: float | None
    """Seconds from observed to written, the 95th percentile; null if nothing was written."""
    is_partial: bool
    """True if only the newest changes were measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorefrontStatus:
    """Everything the first page shows of the shops."""

    shops: tuple[ShopStatus, ...]
    """The shops, those with trouble first."""
    shops_count: int
    """All shops; the list may be shorter."""
    is_estimate: bool
    held: tuple[HeldListing, ...]
    """The oldest held changes."""
    held_count: int
    """All held changes; the list may be shorter."""
    failing: tuple[RefusedListing, ...]
    """Listings whose write the shop refused."""
    written: WriteStatistics
    """Changes written in the last 24 hours."""


def storefront_status(
    connection: Connection,
    now: datetime,
    *,
    resource_of: Callable[[str], Resource],
    calls: "ShopCallStats",
    waits: Mapping[SellerId, ShopWait],
    seller: SellerId | None = None,
) -> StorefrontStatus:
    """Read the status of the shops, of all sellers or of one; `resource_of` names a shop's limit.

    What calls have used, and which shops wait, is read before: a connection with tenant isolation
    cannot read the limits.
    """
    condition = _of_seller(seller)
    values = {
        "shops": ROWS_SHOWN,
        "rows": ROWS_SHOWN,
        "most": COUNT_MAX,
        "held": HELD_LOOKED_AT,
        "now": now,
        "seller": seller,
    }
    rows = connection.execute(SHOPS.format(of_seller=condition), values).fetchall()
    bound = values | {"user_ids": [row[0] for row in rows]}
    in_step, is_estimate = _in_step(connection, bound)
    held = read_as(connection, _held, HELD.format(of_seller=condition), values)
    return StorefrontStatus(
        shops=tuple(
            _shop(row, in_step, calls, resource_of(row[1]).key, waits.get(row[0])) for row in rows
        ),
        shops_count=rows[0][-1] if rows else 0,
        is_estimate=is_estimate,
        held=tuple(listing for listing, _ in held),
        held_count=held[0][1] if held else 0,
        failing=tuple(read_as(connection, RefusedListing, FAILING, bound)),
        written=_written(connection, values | {"day_ago": now - DAY}, condition),
    )


def shop_calls(
    connection: Connection,
    now: datetime,
    *,
    resource_of: Callable[[str], Resource],
    seller: SellerId | None = None,
) -> "ShopCallStats":
    """Read what calls to the shops that are shown have used."""
    values = {"shops": ROWS_SHOWN, "seller": seller}
    shops = connection.execute(DOMAINS.format(of_seller=_of_seller(seller)), values).fetchall()
    return ShopCallStats.read(connection, [resource_of(shop) for (shop,) in shops], now)


def _of_seller(seller: SellerId | None) -> str:
    return "" if seller is None else "AND user_id = %(seller)s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopCallStats:
    """What calls to the shops have used, by key."""

    points: Mapping[str, tuple[float, float]]
    last: Mapping[str, tuple[datetime, str]]

    @classmethod
    def read(
        cls, connection: Connection, resources: Sequence[Resource], now: datetime
    ) -> "ShopCallStats":
        """Read limits and the last write of each shop."""
        known = {resource.key: resource for resource in resources}
        values = {"keys": list(known), "now": now, "calls": CALLS_LOOKED_AT}
        stored = connection.execute(LIMITERS, values).fetchall()
        states = {key: load(state) for key, state in stored if state}
        opened = enter(known, states, now_us=at_us(now))
        points = {}
        for key, state in opened.states.items():
            gauge = show(known[key], state, recent=(), now_us=opened.answer).gauges[0]
            points[key] = (gauge.used, gauge.limit)
        return cls(
            points=points,
            last={key: (at, result) for key, at, result in connection.execute(LAST_WRITES, values)},
        )


def _shop(
    row: Sequence[Any],
    in_step: Mapping[str, tuple[int, int]],
    calls: ShopCallStats,
    key: str,
    wait: ShopWait | None,
) -> ShopStatus:
    user_id, shop, status, reason, is_in_rehearsal, waiting, failing, error, held, _ = row
    points_used, points_max = calls.points.get(key, (None, None))
    pushed_at, pushed = calls.last.get(key, (None, ""))
    is_connected = status == "connected"
    trouble = wait.reason if wait else ""
    steady, listed = in_step.get(user_id, (0, 0))
    return ShopStatus(
        seller=user_id,
        shop=shop,
        is_connected=is_connected,
        is_in_rehearsal=is_in_rehearsal,
        trouble=trouble if is_connected else reason or "disconnected",
        waits_until=wait.until if wait and is_connected else None,
        listed=listed,
        in_step=steady,
        waiting=waiting,
        failing=failing,
        failing_reason=error or "",
        held=held,
        points_used=points_used,
        points_max=points_max,
        pushed_at=pushed_at,
        pushed=pushed,
    )


def _in_step(
    connection: Connection, values: Mapping[str, Any]
) -> tuple[dict[str, tuple[int, int]], bool]:
    """Count each seller's listings, and those whose shop is up to date."""
    share = share_of(connection, "listing_state")
    rows = connection.execute(IN_STEP, {**values, "percent": share.percent}).fetchall()
    counted = {
        user_id: (round(steady * share.weight), round(listed * share.weight))
        for user_id, steady, listed in rows
    }
    return counted, share.is_estimate


def _held(*, total: int, **columns: Any) -> tuple[HeldListing, int]:  # noqa: ANN401 - a row
    return HeldListing(**columns), total


def _written(connection: Connection, values: Mapping[str, Any], condition: str) -> WriteStatistics:
    bound = {**values, "events": EVENTS_MAX}
    statement = WRITTEN.format(of_seller=condition)
    count, p50_s, p95_s, looked_at = connection.execute(statement, bound).fetchall()[0]
    return WriteStatistics(
        count=count, p50_s=p50_s, p95_s=p95_s, is_partial=looked_at >= EVENTS_MAX
    )
