"""Status of the account lane: accounts, sellers' quotas, jobs, budgets and notices.

Only so many accounts are counted as are shown, and each count has a bound. Nothing here writes.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection

from headway.core.accounts.jobs import JobRule, JobStatus, PlatformName, Tier, next_month
from headway.core.accounts.reasons import JobQueueState
from headway.core.catalog.listings import SellerId
from headway.errors import InvalidError
from headway.store import cursors
from headway.store.accounts.job_list import (
    JobView,
    counts,
    of_seller,
    of_status,
)
from headway.store.accounts.job_queue import queue
from headway.store.limits.quotas import Budget
from headway.store.monitoring.notices import Notice, NoticeTopic

COUNT_MAX = 10_000
ACCOUNTS_SHOWN = 12
JOBS_SHOWN = 10
STOPPED_SHOWN = 5
NOTICES_SHOWN = 5
MARK = "account"

# Accounts that need a person come first; both halves are read from an index.
CHOSEN = """
SELECT * FROM (
  (SELECT * FROM connected_accounts WHERE status = 'disconnected' AND {filter} {lost}
   ORDER BY user_id, platform, shop LIMIT %(limit)s)
  UNION ALL
  (SELECT * FROM connected_accounts WHERE status = 'connected' AND {filter} {connected}
   ORDER BY user_id, platform, shop LIMIT %(limit)s)) AS both_kinds
ORDER BY status = 'connected', user_id, platform, shop LIMIT %(limit)s
"""
FILTER = """(%(user_id)s::text IS NULL OR user_id = %(user_id)s)
  AND (%(platform)s::text IS NULL OR platform = %(platform)s)
  AND (%(account_id)s::uuid IS NULL OR id = %(account_id)s)"""
ACCOUNTS = """
SELECT account.id::text, account.user_id, coalesce(profile.tier, 'free'), account.platform,
  account.shop, account.title, account.status = 'connected',
  CASE account.status WHEN 'connected' THEN account.wait_reason ELSE account.reason END,
  account.horizon_at, account.scopes,
  (SELECT placed_at FROM orders WHERE account_id = account.id ORDER BY placed_at DESC LIMIT 1),
  (SELECT count(*) FROM (SELECT FROM orders WHERE account_id = account.id
     LIMIT %(most)s) AS few),
  (SELECT count(*) FROM (SELECT FROM listings WHERE account_id = account.id
     AND state <> 'removed' LIMIT %(most)s) AS few),
  (SELECT count(*) FROM (SELECT FROM unreadable_records WHERE account_id = account.id
     LIMIT %(most)s) AS few),
  coalesce((SELECT missing FROM listing_walks WHERE account_id = account.id
     AND held_reason IS NOT NULL), 0),
  jobs.last_run_at, jobs.next_run_at, jobs.running, jobs.dead, jobs.is_backfilled
FROM ({chosen}) AS account
LEFT JOIN profiles AS profile ON profile.user_id = account.user_id
CROSS JOIN LATERAL (
  SELECT max(completed_at) AS last_run_at,
    min(next_run_at) FILTER (WHERE status <> 'running') AS next_run_at,
    min(kind) FILTER (WHERE status = 'running') AS running,
    count(*) FILTER (WHERE status = 'dead') AS dead,
    coalesce(bool_and(status = 'completed') FILTER (WHERE is_backfill), true) AS is_backfilled
  FROM sync_jobs WHERE account_id = account.id) AS jobs
ORDER BY account.status = 'connected', account.user_id, account.platform, account.shop
"""
AFTER = """AND (user_id, platform, shop)
    > (%(after_user)s, %(after_platform)s, %(after_shop)s)"""
NONE = "AND false"
ACCOUNTS_COUNT = """
SELECT count(*) FROM (SELECT FROM connected_accounts
  WHERE %(user_id)s::text IS NULL OR user_id = %(user_id)s LIMIT %(most)s) AS few
"""
SELLERS = """
SELECT seller.user_id, coalesce(profile.tier, 'free'),
  CASE WHEN profile.orders_month = %(month)s THEN profile.orders_count ELSE 0 END
FROM unnest(%(user_ids)s::text[]) AS seller (user_id)
LEFT JOIN profiles AS profile ON profile.user_id = seller.user_id
ORDER BY seller.user_id
"""
NOTICES = """
SELECT id::text, user_id, topic, subject, text, created_at, delivered_at FROM notices
WHERE %(user_id)s::text IS NULL OR user_id = %(user_id)s
ORDER BY created_at DESC, id LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """One account: its stored records, and the state of its jobs.

    `running` is the kind that is being pulled. `horizon_at` is from when on the platform shows
    orders, where it hides older ones. `missing` listings are held: the platform no longer shows
    them, and they are not removed. `scopes` are the access scopes that the shop granted, None if
    it did not list them; `scope_advice` names others that we need, and says how to grant them.
    """

    id: str
    """The account's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    seller: SellerId
    tier: Tier
    platform: PlatformName
    shop: str
    title: str
    """The shop's name, as people know it. Example: `Acme Aviation`"""
    is_connected: bool
    """True if the platform accepts Headway's token."""
    trouble: str
    """Why it is not connected; empty if it is. Example: `the platform refused the token`"""
    horizon_at: datetime | None
    """How far back orders are read."""
    scopes: Sequence[str] | None
    """Access scopes that the shop granted; null if the platform does not say.
    Example: `["read_orders", "write_products"]`
    """
    newest_order_at: datetime | None
    """When the newest stored order was placed; null if there is none."""
    orders: int
    """Stored orders."""
    listings: int
    """Stored listings."""
    unreadable: int
    """Rows of the platform that Headway could not read."""
    missing: int
    """Listings that the platform no longer shows and that are not removed yet."""
    last_run_at: datetime | None
    """When a job last completed; null if none has."""
    next_run_at: datetime | None
    """When the next job is due; null if none is."""
    running: str | None
    """The kind of data that is being pulled; null if none is. Example: `orders`"""
    dead: int
    """Jobs that failed for good."""
    is_backfilled: bool
    """True if all history has been read."""
    scope_advice: str = ""
    """How to grant missing access scopes; empty if none is missing.
    Example: `run: headway connect acme.myshopify.com`
    """

    @property
    def cursor(self) -> str:
        """The cursor of the page after this item."""
        return cursors.encode(MARK, int(self.is_connected), self.seller, self.platform, self.shop)


@dataclass(frozen=True, slots=True, kw_only=True)
class SellerView:
    """A seller's use of the month's order quota."""

    seller: SellerId
    tier: Tier
    orders: int
    """Orders counted this month."""
    orders_max: int
    """Orders that the seller's tier includes each month."""
    resets_at: datetime
    """When the next month begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountsStatus:
    """Everything the first page shows of the account lane."""

    accounts: tuple[AccountView, ...] = ()
    """The accounts, those that need a person first."""
    accounts_count: int = 0
    """All accounts; the list may be shorter."""
    sellers: tuple[SellerView, ...] = ()
    """Sellers with their use of the monthly order quota."""
    running: tuple[JobView, ...] = ()
    """Jobs that run now."""
    running_max: int = 0
    """How many jobs may run at once."""
    queue: tuple[JobView, ...] = ()
    """The next jobs, best first."""
    due_count: int = 0
    """Jobs that are due."""
    dead: tuple[JobView, ...] = ()
    """Jobs that failed for good."""
    dead_count: int = 0
    """All jobs that failed for good; the list may be shorter."""
    budgets: tuple[Budget, ...] = ()
    """Platforms' daily quotas."""
    notices: tuple[Notice, ...] = ()
    """The latest notices to sellers."""


def accounts_status(
    connection: Connection,
    now: datetime,
    *,
    rule: JobRule,
    state: JobQueueState,
    budgets: tuple[Budget, ...],
) -> AccountsStatus:
    """Read the status of all accounts."""
    accounts = read_accounts(connection, limit=ACCOUNTS_SHOWN)
    due_count, dead_count = counts(connection, now, state.platforms)
    return AccountsStatus(
        accounts=accounts,
        accounts_count=count_accounts(connection),
        sellers=read_sellers(connection, now, {account.seller for account in accounts}, rule=rule),
        running=tuple(
            of_status(connection, now, state, JobStatus.RUNNING, limit=2 * rule.running_max)
        ),
        running_max=rule.running_max,
        queue=tuple(queue(connection, now, state, limit=JOBS_SHOWN)),
        due_count=due_count,
        dead=tuple(of_status(connection, now, state, JobStatus.DEAD, limit=STOPPED_SHOWN)),
        dead_count=dead_count,
        budgets=budgets,
        notices=_notices(connection),
    )


def seller_status(
    connection: Connection,
    now: datetime,
    user_id: SellerId,
    *,
    rule: JobRule,
    state: JobQueueState,
) -> AccountsStatus:
    """Read the status of one seller's accounts; sellers do not see the platforms' days."""
    jobs = of_seller(connection, now, state, user_id)
    waiting = [job for job in jobs if job.due_at and job.status is not JobStatus.RUNNING]
    dead = [job for job in jobs if job.status is JobStatus.DEAD]
    return AccountsStatus(
        accounts=read_accounts(connection, user_id=user_id, limit=ACCOUNTS_SHOWN),
        accounts_count=count_accounts(connection, user_id),
        sellers=read_sellers(connection, now, {user_id}, rule=rule),
        running=tuple(job for job in jobs if job.status is JobStatus.RUNNING),
        running_max=rule.running_max,
        queue=tuple(waiting[:JOBS_SHOWN]),
        due_count=sum(job.place is not None for job in waiting),
        dead=tuple(dead[:STOPPED_SHOWN]),
        dead_count=len(dead),
        notices=_notices(connection, user_id),
    )


def read_accounts(
    connection: Connection,
    *,
    user_id: SellerId | None = None,
    platform: PlatformName | None = None,
    account_id: str | None = None,
    limit: int,
    cursor: str | None = None,
) -> tuple[AccountView, ...]:
    """Read accounts, those that need a person first, from a cursor on."""
    where, after = _after(cursor)
    values = {
        "user_id": user_id,
        "platform": platform,
        "account_id": account_id,
        "limit": limit,
        "most": COUNT_MAX,
        **after,
    }
    chosen = CHOSEN.format(filter=FILTER, **where)
    rows = connection.execute(ACCOUNTS.format(chosen=chosen), values).fetchall()
    names = [name for name in AccountView.__dataclass_fields__ if name != "scope_advice"]
    columns = [dict(zip(names, row, strict=True)) for row in rows]
    return tuple(
        AccountView(**{**row, "tier": Tier(row["tier"]), "platform": PlatformName(row["platform"])})
        for row in columns
    )


def _after(cursor: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """Decode a cursor of accounts, disconnected and others; raise InvalidError."""
    if cursor is None:
        return {"lost": "", "connected": ""}, {}
    name, is_connected, user_id, platform, shop = cursors.decode(cursor, str, int, str, str, str)
    if name != MARK:
        raise InvalidError(cursors.INVALID)
    values = {"after_user": user_id, "after_platform": platform, "after_shop": shop}
    if is_connected:
        return {"lost": NONE, "connected": AFTER}, values
    return {"lost": AFTER, "connected": ""}, values


def count_accounts(connection: Connection, user_id: SellerId | None = None) -> int:
    """Count the accounts, up to a bound."""
    values = {"most": COUNT_MAX, "user_id": user_id}
    row = connection.execute(ACCOUNTS_COUNT, values).fetchone()
    assert row is not None, "an aggregate always answers"
    return int(row[0])


def read_sellers(
    connection: Connection, now: datetime, user_ids: Collection[SellerId], *, rule: JobRule
) -> tuple[SellerView, ...]:
    """Read what these sellers have used of the month's orders."""
    values = {"user_ids": sorted(user_ids), "month": now.date().replace(day=1)}
    return tuple(
        SellerView(
            seller=SellerId(user_id),
            tier=Tier(tier),
            orders=orders,
            orders_max=rule.order_quotas[Tier(tier)],
            resets_at=next_month(now),
        )
        for user_id, tier, orders in connection.execute(SELLERS, values).fetchall()
    )


def _notices(connection: Connection, user_id: SellerId | None = None) -> tuple[Notice, ...]:
    values = {"limit": NOTICES_SHOWN, "user_id": user_id}
    rows = connection.execute(NOTICES, values).fetchall()
    columns = [dict(zip(Notice.__dataclass_fields__, row, strict=True)) for row in rows]
    return tuple(Notice(**{**row, "topic": NoticeTopic(row["topic"])}) for row in columns)
