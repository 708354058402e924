"""Status of the deployment, read from the tables: one overview for terminal, page and API.

Every statement is a short range of an index, a bounded count, or a sample, so that the cost does
not grow with the table. Nothing here writes.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from psycopg import Connection

from headway.core.catalog.listings import MAIN, LimitKey, SellerId, Sku, SupplierName
from headway.core.limits.breaker import Breaker
from headway.core.limits.rules import Resource
from headway.core.pauses import Pause
from headway.core.timetable.next_call import NextCall, SupplierQueue, next_call
from headway.store.accounts.status import AccountsStatus
from headway.store.catalog.change_list import ROWS_SHOWN, ObservedChange, latest_changes
from headway.store.catalog.listing_counts import ListingCounts, count_listings
from headway.store.catalog.shop_status import StorefrontStatus, shop_calls, storefront_status
from headway.store.catalog.shop_waits import shop_waits
from headway.store.pauses import active_pauses
from headway.store.pool import Lent, Pool, guarded
from headway.store.queries import read_as

DAY = timedelta(days=1)
HOUR_S = 3600
PAUSES_SHOWN = 50

TROUBLE = """
SELECT user_id AS seller, sku, consecutive_failures AS failures, coalesce(last_error, '') AS error,
  next_sync_at AS next_at, NOT is_active AS is_parked
FROM product_sync_schedule WHERE consecutive_failures > 0 {of_seller}
ORDER BY consecutive_failures DESC LIMIT %(most)s
"""
# The last day, by the hour. A call that was not sent cost the supplier nothing.
SPENT = """
SELECT floor(extract(epoch FROM %(now)s - begun_at) / 3600)::int AS hours_ago, count(*),
  count(*) FILTER (WHERE coalesce(arrived_by, %(now)s) > %(minute_ago)s),
  coalesce(sum(cardinality(skus)) FILTER (WHERE seats_paid > 0 AND status = 'sent'), 0),
  coalesce(sum(seats_paid) FILTER (WHERE status = 'sent'), 0)
FROM call_ledger
WHERE limit_key = %(limit_key)s AND begun_at > %(day_ago)s AND begun_at <= %(now)s AND status <>
  'unsent'
GROUP BY 1
"""
# The fields of `RecentCall`.
CALL_COLUMNS = """begun_at AS at, coalesce(nullif(result, ''), status) AS result,
  status = 'sent' AND coalesce(http_status, 200) = 200 AS is_good, status <> 'begun' AS is_over,
  coalesce(cardinality(skus), 0) AS seats_used, coalesce(seats_paid, 0) AS seats_paid,
  extract(epoch FROM finished_at - begun_at)::float8 AS duration_s"""
CALLS = f"""
SELECT {CALL_COLUMNS} FROM call_ledger
WHERE limit_key = %(limit_key)s AND begun_at <= %(now)s ORDER BY begun_at DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitStatus:
    """State of the supplier's limit: when a permit is free, and whether it is on hold."""

    free_at: datetime
    """When the limit permits the next call."""
    paused_until: datetime | None = None
    pause_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierUsage:
    """Use of the supplier's limit."""

    minute_count: int
    """Calls in the last minute."""
    minute_limit: int
    """Calls permitted in a minute."""
    day_count: int
    """Calls in the last 24 hours."""
    day_limit: int
    """Calls permitted in 24 hours."""
    fill: float | None
    """Share of paid seats that were used, from 0 to 1; null if no call was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentCall:
    """One call of the ledger; seats are 0 for a request without listings."""

    at: datetime
    """When the call was sent."""
    result: str
    """How it ended, in a word. Example: `ok`"""
    is_good: bool
    """True if the provider answered it."""
    is_over: bool
    """False while the call is under way."""
    seats_used: int
    """Parts in the call."""
    seats_paid: int
    """Parts that the call had room for."""
    duration_s: float | None
    """Seconds from sending to the reply; null while it is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingListing:
    """A listing that failed, and when it is tried again."""

    seller: SellerId
    sku: Sku
    failures: int
    error: str
    """Why it failed. Example: `404: no such part`"""
    next_at: datetime
    """When it is tried again."""
    is_parked: bool
    """True if Headway gave up until somebody revives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything the first page shows, at one instant, with the queue of one supplier.

    `oldest_read_at` leaves failing listings aside; they are shown with their reasons. `pauses` are
    the first few: of everything, of the supplier, then the oldest.
    """

    now: datetime
    next_call: NextCall
    """The supplier's next call."""
    spent: SupplierUsage
    """Use of the supplier's limit."""
    counts: ListingCounts
    """Listings by state."""
    oldest_read_at: datetime | None
    """When the listing that was read longest ago was read; null if none was read."""
    ages_h: tuple[int, ...]
    """Listings by the age of their last read: the first number counts those younger than an hour.
    Example: `[120, 84, 12]`
    """
    breaker: Breaker
    """The supplier's circuit breaker."""
    gate: PermitStatus
    """When the supplier's limit permits a call."""
    changes: tuple[ObservedChange, ...]
    """The latest changes that reads observed."""
    storefront: StorefrontStatus
    """The shops, held changes and failed writes."""
    calls: tuple[RecentCall, ...]
    """The latest calls to the supplier."""
    trouble: tuple[FailingListing, ...]
    """Listings that failed and are tried again, and parked ones."""
    calls_per_hour: tuple[int, ...]
    """Calls in each of the last 24 hours, the oldest first. Example: `[118, 120, 117]`"""
    currency: str
    supplier: SupplierName = MAIN
    pauses: tuple[Pause, ...] = ()
    """What is paused."""
    accounts: AccountsStatus = field(default_factory=AccountsStatus)
    """Accounts, their jobs and quotas."""
    has_supplier: bool = True
    """True if a supplier is set up."""

    @property
    def is_accounts_only(self) -> bool:
        """True if accounts are read and there is nothing to read from a supplier."""
        has_parts = self.has_supplier or self.counts.total > 0
        return not has_parts and self.accounts.accounts_count > 0


def overview(
    pool: Pool,
    now: datetime,
    *,
    supplier: SupplierName = MAIN,
    limit_key: LimitKey,
    queue: Callable[[Pool], SupplierQueue],
    slack: timedelta,
    minute_limit: int,
    resource_of: Callable[[str], Resource],
    accounts: Callable[[Pool], AccountsStatus],
    currency: str,
    seller: SellerId | None = None,
    seller_pool: Pool | None = None,
) -> Overview:
    """Read everything the first page shows.

    `queue` reads the supplier's queue and `accounts` the state of the accounts, each through the
    pool it gets; `resource_of` names the limit that binds a shop. For a `seller`, only that
    seller's rows are read, through `seller_pool`; of the shared state there is no ledger.
    """
    # Two halves at once, each on one connection at a time: holding one connection while waiting for
    # another could deadlock.
    with ThreadPoolExecutor(1) as aside:
        other = aside.submit(
            _read_shared,
            pool,
            now,
            seller=seller,
            limit_key=limit_key,
            minute_limit=minute_limit,
            queue=queue,
            accounts=accounts,
        )
        with guarded(), pool.connection() as connection:
            shops = shop_calls(connection, now, resource_of=resource_of, seller=seller)
            waits = shop_waits(connection, now, seller=seller)
        with guarded(), (seller_pool or pool).connection() as connection:
            counts, ages_h, oldest_read_at = count_listings(connection, now, slack, seller)
            changes = latest_changes(connection, now, waits=waits, seller=seller)
            storefront = storefront_status(
                connection, now, resource_of=resource_of, calls=shops, waits=waits, seller=seller
            )
            trouble = _trouble(connection, seller)
        shared = other.result()
    stops = [pause for pause in shared.pauses if pause.stops_queue(supplier)]
    coming = next_call(shared.queue, now, pauses=stops)
    return Overview(
        now=now,
        supplier=supplier,
        currency=currency,
        next_call=coming if seller is None else coming.for_seller(seller, shared.queue.front),
        spent=shared.spent,
        counts=counts,
        oldest_read_at=oldest_read_at,
        ages_h=ages_h,
        breaker=shared.queue.breaker,
        gate=PermitStatus(
            free_at=shared.queue.permit_at,
            paused_until=shared.queue.paused_until,
            pause_reason=shared.queue.pause_reason,
        ),
        changes=changes,
        storefront=storefront,
        calls=shared.calls,
        trouble=trouble,
        calls_per_hour=shared.calls_per_hour,
        pauses=tuple(shared.pauses),
        accounts=shared.accounts,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SharedStatus:
    """What all sellers share: the supplier's queue, calls and pauses, and the account lane."""

    queue: SupplierQueue
    accounts: AccountsStatus
    pauses: Sequence[Pause]
    spent: SupplierUsage
    calls: tuple[RecentCall, ...]
    calls_per_hour: tuple[int, ...]


def _read_shared(
    pool: Pool,
    now: datetime,
    *,
    seller: SellerId | None,
    limit_key: LimitKey,
    minute_limit: int,
    queue: Callable[[Pool], SupplierQueue],
    accounts: Callable[[Pool], AccountsStatus],
) -> _SharedStatus:
    """Read the half that needs no tenant isolation; a seller sees no ledger."""
    is_whole = seller is None
    with guarded(), pool.connection() as connection:
        lent = Lent(connection)
        spent, per_hour = _spent(connection, now, limit_key, minute_limit)
        return _SharedStatus(
            queue=queue(lent),
            accounts=accounts(lent),
            pauses=active_pauses(connection, now, seller=seller, limit=PAUSES_SHOWN),
            spent=spent,
            calls=_calls(connection, now, limit_key) if is_whole else (),
            calls_per_hour=per_hour if is_whole else (),
        )


def _spent(
    connection: Connection, now: datetime, limit_key: LimitKey, minute_limit: int
) -> tuple[SupplierUsage, tuple[int, ...]]:
    """Return the use of the limit, and the calls of each hour, oldest first."""
    values = {
        "limit_key": limit_key,
        "now": now,
        "minute_ago": now - timedelta(minutes=1),
        "day_ago": now - DAY,
    }
    rows = connection.execute(SPENT, values).fetchall()
    counts = {row[0]: row[1] for row in rows}
    minute_count, used, paid = (sum(row[column] for row in rows) for column in (2, 3, 4))
    spent = SupplierUsage(
        minute_count=minute_count,
        minute_limit=minute_limit,
        day_count=sum(counts.values()),
        day_limit=minute_limit * 1440,
        fill=float(used) / float(paid) if paid else None,
    )
    return spent, tuple(counts.get(hours_ago, 0) for hours_ago in reversed(range(24)))


def _calls(connection: Connection, now: datetime, limit_key: LimitKey) -> tuple[RecentCall, ...]:
    values = {"limit_key": limit_key, "now": now, "most": ROWS_SHOWN}
    return tuple(read_as(connection, RecentCall, CALLS, values))


def _trouble(connection: Connection, seller: SellerId | None) -> tuple[FailingListing, ...]:
    statement = TROUBLE.format(of_seller="" if seller is None else "AND user_id = %(seller)s")
    values = {"most": ROWS_SHOWN, "seller": seller}
    return tuple(read_as(connection, FailingListing, statement, values))
