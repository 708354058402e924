"""Everything that writes jobs at once, on one database: no deadlock, no slot taken twice."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count

from psycopg_pool import ConnectionPool
from tests.store.accounts.job_fixtures import RULE

from headway.app.accounts import connect_account
from headway.clock import SystemClock
from headway.core.accounts.jobs import DataKind, JobStatus, Tier
from headway.core.accounts.pagination import Page, PageStep
from headway.core.accounts.warehouse import Order, Records
from headway.core.accounts.webhooks import Webhook, WebhookEffect
from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.listings import SellerId
from headway.core.limits.transitions import Observation, Quota, Resource
from headway.errors import ConflictError
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.job_rows import JobRows
from headway.store.accounts.jobs import Jobs
from headway.store.accounts.webhooks import Webhooks
from headway.store.catalog.sellers import Sellers
from headway.store.limits.limiter import PostgresLimiter
from headway_lab.platforms import ETSY, KINDS, PRINTIFY

NOW = datetime(2026, 3, 10, tzinfo=UTC)
ROUNDS = 30
DAY_KEY = "etsy:key"
ORDER = Order(
    external_id="1", status="paid", is_open=True, currency="EUR", total=Decimal(1), placed_at=NOW
)
SHOPS = [
    (SellerId(seller), platform, str(number))
    for number, seller in enumerate(("a", "b"), 1)
    for platform in (ETSY, PRINTIFY)
]


class Storm:
    """Each method is one step of one actor."""

    def __init__(self, pool: ConnectionPool) -> None:
        quota = Quota(limit=10_000, span_s=86_400)
        limiter = PostgresLimiter(pool, SystemClock(), [Resource(key=DAY_KEY, rules=(quota,))])
        rule = replace(RULE, order_quotas=dict.fromkeys(Tier, ROUNDS), running_max=3)
        self.pool, self.limiter, self.rule = pool, limiter, rule
        self.jobs = Jobs(pool, limiter, rule, kinds=KINDS, days={ETSY: DAY_KEY})
        self.accounts, self.hooks, self.rows = ConnectedShops(pool), Webhooks(pool), JobRows(pool)
        self.sellers = Sellers(pool, SellerSettings(terms=Terms(locations={}, currency="USD")))
        self.numbers = count(1)

    def pull(self, number: int) -> None:
        claimed = self.jobs.claim(now=NOW, owner=f"w{number}")
        if claimed is None:
            return
        job, day = claimed
        order = replace(ORDER, external_id=str(next(self.numbers)))
        page, step = Page(records=Records(orders=(order,))), PageStep(cursor={"run": {}})
        if day is not None and self.limiter.spend(day, 1):
            self.limiter.observe(DAY_KEY, Observation(used=number), permit=day)
        self.jobs.commit(job, page, step, calls=1, asked_at=NOW, now=NOW)
        if day is not None:
            self.limiter.settle(day, sent=True)
        endings = (JobStatus.COMPLETED, JobStatus.QUEUED, JobStatus.LIMITED, JobStatus.FAILED)
        if number % 5 == 4:
            self.jobs.disconnect(job, "refused", calls=1, now=NOW)
        elif number % 7:  # else it crashes
            ending = JobStatus.COMPLETED if job.type == "backfill" else endings[number % 4]
            at = None if job.type == "backfill" else NOW
            self.jobs.settle(job, ending, next_run_at=at, calls=1, now=NOW)

    def rescue(self, _number: int) -> None:
        self.jobs.rescue(NOW + 2 * self.rule.lease)

    def join(self, number: int) -> None:
        seller, platform, shop = SHOPS[number % len(SHOPS)]
        connect_account(self.pool, seller, shop, platform=platform, now=NOW - self.rule.lease * 9)

    def leave(self, number: int) -> None:
        seller, platform, _ = SHOPS[number % len(SHOPS)]
        if number % 3 == 0:
            self.accounts.disconnect(seller, "closed", platform=platform, now=NOW)

    def set_tier(self, number: int) -> None:
        seller, _, _ = SHOPS[number % len(SHOPS)]
        quotas = self.rule.order_quotas
        self.sellers.set_tier(seller, list(Tier)[number % 4], quotas=quotas, now=NOW)

    def deliver_webhook(self, number: int) -> None:
        _, platform, shop = SHOPS[number % len(SHOPS)]
        is_end = platform == PRINTIFY and number % 6 == 1
        hook = Webhook(
            platform=platform,
            delivery_id=f"{number // 2}",
            shop=shop,
            topic="news",
            effect=WebhookEffect.DISCONNECT if is_end else WebhookEffect.WAKE,
            kind=None if is_end else DataKind.ORDERS,
            external_id=str(number),
        )
        self.hooks.take(hook, now=NOW)

    def make_due(self, number: int) -> None:
        seller, platform, _ = SHOPS[number % len(SHOPS)]
        account = self.accounts.of_seller(seller, platform)
        with suppress(ConflictError):  # the shop is disconnected at the moment
            self.rows.revive(account.id, now=NOW)


def test_everything_that_writes_jobs_at_once_never_deadlocks(shared_pool: ConnectionPool) -> None:
    storm = Storm(shared_pool)
    for number in range(len(SHOPS)):
        storm.join(number)
    troubles: list[Exception] = []

    def repeat(act: Callable[[int], None]) -> None:
        try:
            for number in range(ROUNDS):
                act(number)
        except Exception as error:  # noqa: BLE001 - reported to the test
            troubles.append(error)

    acts = [storm.pull] * 3 + [
        storm.rescue,
        storm.join,
        storm.leave,
        storm.set_tier,
        storm.deliver_webhook,
    ]
    threads = [threading.Thread(target=repeat, args=[act]) for act in [*acts, storm.make_due]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    for number in range(len(SHOPS)):
        storm.join(number)
    storm.rescue(0)
    with shared_pool.connection() as connection:
        tiers = "SELECT count(*) FROM sync_jobs JOIN profiles USING (user_id)"
        off = connection.execute(f"{tiers} WHERE sync_jobs.tier <> profiles.tier").fetchone()
        lost = "SELECT count(*) FROM sync_jobs WHERE status IN ('running', 'cancelled', 'dead')"
        assert (off, connection.execute(lost).fetchone()) == ((0,), (0,))
        for number in range(1, 5):  # on a busy machine the storm may have refused every page
            storm.pull(number)
        counts = connection.execute(
            "SELECT profile.orders_count, (SELECT count(*) FROM orders"
            " WHERE orders.user_id = profile.user_id) FROM profiles AS profile"
            " WHERE orders_month IS NOT NULL"
        ).fetchall()
    assert counts
    assert all(counted == there for counted, there in counts)
