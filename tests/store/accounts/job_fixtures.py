"""Sellers, accounts and jobs as rows, for tests of the account lane."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg_pool import ConnectionPool
from tests.statements import Statements

from headway.core.accounts.jobs import DataKind, JobRule, JobType, Tier, score
from headway.core.limits.transitions import Quota, Resource
from headway.store.accounts.jobs import Jobs
from headway.store.limits.limiter import PostgresLimiter
from headway_lab.platforms import ETSY, KINDS
from headway_lab.virtual_clock import VirtualClock

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY_KEY = "etsy:key"
RULE = JobRule(
    intervals=dict(zip(Tier, (60 * MINUTE, 30 * MINUTE, 15 * MINUTE, 5 * MINUTE), strict=True)),
    kind_intervals={kind: (0 if kind is DataKind.ORDERS else 360) * MINUTE for kind in DataKind},
    order_quotas=dict(zip(Tier, (50, 300, 1500, 5000), strict=True)),
)


@dataclass
class Rows(Statements):
    """One database, a clock, and the store's jobs over them."""

    pool: ConnectionPool
    clock: VirtualClock
    limiter: PostgresLimiter
    jobs: Jobs
    rule: JobRule

    def account(self, seller: str, platform: str = "etsy", tier: str = "free") -> str:
        self.ask(
            "INSERT INTO profiles (user_id, tier) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            seller,
            tier,
        )
        return self.one(
            "INSERT INTO connected_accounts (user_id, platform, shop, owner_id)"
            " VALUES (%s, %s, %s, 'o-' || %s) RETURNING id::text",
            seller,
            platform,
            f"{seller}-{platform}",
            seller,
        )

    def job(
        self,
        account: str,
        *,
        kind: str = "orders",
        job_type: str = "incremental",
        waited: timedelta = timedelta(0),
        estimate: float = 0,
    ) -> str:
        user_id, platform, tier = self.one(
            "SELECT user_id, platform, tier FROM connected_accounts"
            " JOIN profiles USING (user_id) WHERE id = %s",
            account,
        )
        return self.one(
            "INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, tier, score,"
            " next_run_at, calls_estimate, created_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING id::text",
            account,
            user_id,
            platform,
            kind,
            job_type,
            tier,
            score(Tier(tier), JobType(job_type)),
            self.clock.now() - waited,
            estimate,
            self.clock.now(),
        )

    def add(self, seller: str, platform: str = "etsy", tier: str = "free", **job: Any) -> str:
        """Add a seller with one account and one job; return the job's id."""
        return self.job(self.account(seller, platform, tier), **job)

    def claim(self, owner: str = "w", **wishes: Any) -> Any:
        return self.jobs.claim(now=self.clock.now(), owner=owner, **wishes)

    def status(self, job_id: str) -> tuple[str, datetime | None]:
        return self.one("SELECT status, next_run_at FROM sync_jobs WHERE id = %s", job_id)

    def day(self) -> tuple[float, float]:
        """Return what is used and reserved of the day."""
        gauge = self.limiter.status(DAY_KEY).gauges[0]
        return gauge.used, gauge.reserved


def make_rows(
    pool: ConnectionPool, *, day_limit: float = 10_000, rule: JobRule = RULE, at: datetime = NOW
) -> Rows:
    clock = VirtualClock(at)
    quota = Quota(limit=day_limit, span_s=86_400)
    limiter = PostgresLimiter(pool, clock, [Resource(key=DAY_KEY, rules=(quota,))])
    jobs = Jobs(pool, limiter, rule, kinds=KINDS, days={ETSY: DAY_KEY})
    return Rows(pool=pool, clock=clock, limiter=limiter, jobs=jobs, rule=rule)
