"""Rows of the account lane that the law checks read, bypassing the engine and its ports.

It writes no row. `number_ids` numbers a run's accounts and jobs in order, where random ids would
make two runs of one seed differ; `tidy` does at a chosen moment what autovacuum would do at an
arbitrary one.
"""

from dataclasses import dataclass
from datetime import datetime

from headway.store.monitoring.job_law_checks import STRAYS
from headway.store.pool import Pool, guarded

ROWS = """
SELECT id::text, account_id::text, user_id, platform, kind, job_type, tier, status, fence,
  next_run_at, lease_until, wait_reason, coalesce(last_error, '')
FROM sync_jobs
"""
NEXT_DUE = """
SELECT min(next_run_at) FROM sync_jobs
WHERE next_run_at > %(now)s AND status IN ('queued', 'completed', 'failed', 'plan_limit_reached')
"""
NUMBERED = ("connected_accounts", "sync_jobs")
NUMBERS = "CREATE SEQUENCE IF NOT EXISTS simulated_ids"
NUMBER = """
ALTER TABLE {table} ALTER COLUMN id SET DEFAULT md5('{table} ' || nextval('simulated_ids'))::uuid
"""
BUSY_TABLES = (
    "sync_jobs", "limiter", "breaker", "credential", "connected_accounts", "profiles",
    "rate_budgets", "orders", "line_items", "shipments", "refunds", "listings", "customers",
    "payments", "webhook_deliveries",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One job as the table has it."""

    id: str
    account_id: str
    user_id: str
    platform: str
    kind: str
    job_type: str
    tier: str
    status: str
    fence: int
    next_run_at: datetime | None
    lease_until: datetime | None
    wait_reason: str
    last_error: str


class JobEvidence:
    """The tables as they are."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def number_ids(self) -> None:
        """Give new accounts and jobs the same ids in every run."""
        with guarded(), self._pool.connection() as connection:
            connection.execute(NUMBERS)
            for table in NUMBERED:
                connection.execute(NUMBER.format(table=table))

    def jobs(self) -> list[JobRow]:
        """Return every job."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(ROWS).fetchall()
        return [JobRow(**dict(zip(NAMES, row, strict=True))) for row in rows]

    def running(self) -> dict[str, tuple[str, int]]:
        """Return the job and the fence that run, by account."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(ROWS + "WHERE status = 'running'").fetchall()
        jobs = [JobRow(**dict(zip(NAMES, row, strict=True))) for row in rows]
        return {job.account_id: (job.id, job.fence) for job in jobs}

    def next_due(self, now: datetime) -> datetime | None:
        """Return when the next job becomes due that is not."""
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(NEXT_DUE, {"now": now}).fetchone()
        return None if row is None else row[0]

    def strays(self) -> list[tuple[str, str, str]]:
        """Return table, account and name of every row that bears another seller's name."""
        with guarded(), self._pool.connection() as connection:
            return list(connection.execute(STRAYS).fetchall())

    def tidy(self) -> None:
        """Vacuum the tables and update the planner's statistics."""
        with guarded(), self._pool.connection() as connection:
            for table in BUSY_TABLES:
                connection.execute(f"VACUUM (ANALYZE) {table}")


NAMES = tuple(JobRow.__dataclass_fields__)
