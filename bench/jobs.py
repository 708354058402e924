"""How long a claim of ten jobs takes, however many wait: with its budget, and with its settle."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from psycopg_pool import ConnectionPool

from bench.services import CLOCK, migrated, postgres, scratch, version
from bench.table import median, p95, report_progress, show
from headway.core.accounts.jobs import DataKind, JobRule, JobStatus, Tier
from headway.core.limits.transitions import Quota, Resource
from headway.store.accounts.jobs import Jobs
from headway.store.limits.limiter import PostgresLimiter
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.platforms import ETSY, KINDS

ROWS = (10_000, 100_000, 1_000_000)
ROUNDS = 200
BLOCK = 20
WARM_UP = 20
PICKED = 10
JOBS_PER_ACCOUNT = 3
DAY_KEY = "etsy:bench"
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "maintenance_work_mem": "512MB",
    "max_wal_size": "8GB",
}
MINUTE = timedelta(minutes=1)
RULE = JobRule(
    intervals=dict.fromkeys(Tier, 60 * MINUTE),
    kind_intervals=dict.fromkeys(DataKind, timedelta(0)),
    order_quotas=dict.fromkeys(Tier, 1000),
)
# Sellers, each with one account at some platform; tiers as a young service has them.
FILL = (
    """
INSERT INTO profiles (user_id, tier)
SELECT 'seller-' || n, (ARRAY['free', 'free', 'free', 'starter', 'starter', 'growth', 'pro'])
  [1 + n % 7] FROM generate_series(1, {accounts}) AS n
""",
    """
INSERT INTO connected_accounts (user_id, platform, shop)
SELECT 'seller-' || n, (ARRAY['etsy', 'shopify', 'printify'])[1 + n % 3], 'shop-' || n
FROM generate_series(1, {accounts}) AS n
""",
    """
INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, tier, score, next_run_at,
  calls_estimate)
SELECT account.id, user_id, platform, kind, job_type, tier,
  10 * array_position(ARRAY['free', 'starter', 'growth', 'pro'], tier)
    + array_position(ARRAY['backfill', 'incremental', 'webhook_triggered'], job_type),
  now() - random() * interval '3 hours', 4
FROM connected_accounts AS account JOIN profiles USING (user_id)
CROSS JOIN (VALUES ('orders', 'incremental'), ('orders', 'backfill'), ('listings', 'incremental'))
  AS job (kind, job_type)
""",
)


@dataclass(slots=True, kw_only=True)
class Queue:
    """One queue of some length, and a worker at it."""

    rows: int
    jobs: Jobs
    limiter: PostgresLimiter
    now: datetime
    claim: list[float] = field(default_factory=list)
    settle: list[float] = field(default_factory=list)

    def round(self) -> None:
        """Claim ten jobs and settle them for an hour later, and record how long each took."""
        self.now += timedelta(seconds=1)
        at = CLOCK.monotonic()
        taken = self.jobs.claim_many(now=self.now, owner="bench", limit=PICKED)
        self.claim.append((CLOCK.monotonic() - at) * 1000)
        assert len(taken) == PICKED, "a queue this long has ten to run"
        at = CLOCK.monotonic()
        for job, permit in taken:
            if permit is not None:
                self.limiter.settle(permit, sent=True, actual=0)
            due_at = self.now + timedelta(hours=4)
            self.jobs.settle(job, JobStatus.QUEUED, next_run_at=due_at, now=self.now)
        self.settle.append((CLOCK.monotonic() - at) * 1000)


def run(*, rows: Sequence[int] = ROWS, rounds: int = ROUNDS) -> None:
    """Fill, measure, print."""
    with scratch() as folder, postgres(folder / "jobs", SETTINGS) as server:
        report_progress(version(server))
        pools = [_filled(server, row) for row in rows]
        try:
            queues = [_queue(size, pool) for size, pool in zip(rows, pools, strict=True)]
            _measure(queues, rounds)
            _print(queues, version(server), rounds)
        finally:
            for pool in pools:
                pool.close()


def _measure(queues: Sequence[Queue], rounds: int) -> None:
    for queue in queues:
        for _ in range(WARM_UP):
            queue.round()
        queue.claim, queue.settle = [], []
    for done in range(0, rounds, BLOCK):
        report_progress(f"round {done} of {rounds}")
        for queue in queues:
            for _ in range(min(BLOCK, rounds - done)):
                queue.round()


def _print(queues: Sequence[Queue], server: str, rounds: int) -> None:
    base = median(queues[0].claim)
    cells = [
        (
            f"{queue.rows:,}",
            f"{median(queue.claim):.2f}",
            f"{p95(queue.claim):.2f}",
            f"{median(queue.settle):.2f}",
            f"{median(queue.claim) / base:.2f}",
        )
        for queue in queues
    ]
    show(
        f"claim of {PICKED} jobs with their budget, of three platforms and twelve scores (ms)",
        ("queued", "claim", "p95", "settle of 10", "ratio"),
        cells,
        server,
        f"{rounds} rounds a size, alternating every {BLOCK} rounds",
    )


def _filled(server: EmbeddedServer, rows: int) -> ConnectionPool:
    report_progress(f"{rows:,} jobs: filling")
    pool = open_pool(migrated(server, f"jobs_{rows}"), size=2)
    try:
        with pool.connection() as connection:
            for statement in FILL:
                connection.execute(statement.format(accounts=rows // JOBS_PER_ACCOUNT + 1).encode())
            connection.execute("VACUUM (ANALYZE) sync_jobs, connected_accounts, profiles")
            connection.execute("CHECKPOINT")
    except BaseException:
        pool.close()
        raise
    return pool


def _queue(rows: int, pool: ConnectionPool) -> Queue:
    quota = Quota(limit=10**9, span_s=86_400)
    limiter = PostgresLimiter(pool, CLOCK, [Resource(key=DAY_KEY, rules=(quota,))])
    jobs = Jobs(pool, limiter, RULE, kinds=KINDS, days={ETSY: DAY_KEY})
    return Queue(rows=rows, jobs=jobs, limiter=limiter, now=CLOCK.now())
