"""A small account lane for tests: three sellers of three tiers, real jobs, a real limiter."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from psycopg_pool import ConnectionPool

from headway.app.accounts import connect_account
from headway.core.accounts.jobs import DataKind, Job, JobRule, PlatformName, Tier
from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import Guard, SellerSettings
from headway.core.catalog.listings import SellerId
from headway.core.limits.rules import Quota, Resource
from headway.core.limits.transitions import Permit
from headway.store.accounts.connections import ConnectedShop
from headway.store.accounts.jobs import Jobs
from headway.store.catalog.sellers import Sellers
from headway.store.limits.limiter import PostgresLimiter
from headway_lab.platforms import ETSY, KINDS, PRINTIFY, SHOPIFY
from headway_lab.virtual_clock import VirtualClock

DAY_KEY = "etsy:app:day"
SELLERS: Mapping[Tier, str] = {Tier.PRO: "prime", Tier.GROWTH: "grove", Tier.FREE: "fern"}
SHOPS = {
    ETSY: "100{}",
    SHOPIFY: "shop-{}.myshopify.com",
    PRINTIFY: "200{}",
}
RULE = JobRule(
    intervals={tier: timedelta(minutes=60) for tier in Tier},
    kind_intervals={kind: timedelta(0) for kind in DataKind},
    order_quotas={Tier.FREE: 50, Tier.STARTER: 300, Tier.GROWTH: 1500, Tier.PRO: 5000},
)


@dataclass
class Lane:
    """Connected sellers, their jobs, and the day of Etsy."""

    pool: ConnectionPool
    clock: VirtualClock
    day_limit: float = 100
    rule: JobRule = RULE
    accounts: dict[tuple[str, PlatformName], ConnectedShop] = field(default_factory=dict)

    def __post_init__(self) -> None:
        day = Resource(key=DAY_KEY, rules=(Quota(limit=self.day_limit, span_s=86_400),))
        self.days = {ETSY: day}
        self.limiter = PostgresLimiter(self.pool, self.clock, [day])
        self.jobs = Jobs(self.pool, self.limiter, self.rule, kinds=KINDS, days={ETSY: DAY_KEY})

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def connect(self, *tiers: Tier) -> None:
        """Connect a seller of each tier on all platforms; all jobs are due at once."""
        standing = SellerSettings(terms=Terms(locations={}, currency="USD"), guard=Guard())
        for number, tier in enumerate(tiers or tuple(SELLERS), start=1):
            seller = SellerId(SELLERS[tier])
            Sellers(self.pool, standing).set_tier(
                seller, tier, quotas=self.rule.order_quotas, now=self.now
            )
            for platform, shop in SHOPS.items():
                self.accounts[seller, platform] = connect_account(
                    self.pool, seller, shop.format(number), platform=platform, now=self.now
                )
        self.ask("UPDATE sync_jobs SET next_run_at = %s", self.now)

    def claim(self, *without: PlatformName) -> tuple[Job, Permit | None]:
        claimed = self.jobs.claim(now=self.now, owner="test", without=without)
        assert claimed is not None
        return claimed

    def ask(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.pool.connection() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []
