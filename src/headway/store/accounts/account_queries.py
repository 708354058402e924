"""Queries on the account lane, each of one instant, with the forecasts of its jobs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from psycopg import Connection

from headway.core.accounts.admission import PlatformAdmission, admission
from headway.core.accounts.job_order import JobMark
from headway.core.accounts.jobs import DataKind, JobRule, JobStatus, PlatformName, Tier
from headway.core.accounts.reasons import JobQueueState
from headway.core.catalog.listings import SellerId
from headway.core.limits.rules import Resource
from headway.store.accounts.job_list import (
    JobView,
    find,
    mark_of,
    of_account,
    of_seller,
    of_status,
    read_queue_state,
)
from headway.store.accounts.job_outlook import JobForecasts
from headway.store.accounts.job_queue import queue, up_to
from headway.store.accounts.status import (
    AccountsStatus,
    AccountView,
    SellerView,
    accounts_status,
    read_accounts,
    read_sellers,
    seller_status,
)
from headway.store.limits.day_demand import DayDemand
from headway.store.limits.quotas import Budget, read_budgets, read_day_outlooks
from headway.store.pool import Pool, guarded
from headway.store.queries import is_uuid

ACCOUNT_EXISTS = """
SELECT FROM connected_accounts WHERE id = %(id)s::uuid
  AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
"""
# Older calls count less, as in sync_jobs.day_calls.
TOP_ACCOUNT = """
SELECT account.user_id || ' ' || account.shop, sum(job.day_calls
  * exp(-greatest(0, extract(epoch FROM %(now)s - job.day_calls_at)::float) / 86400)) AS calls
FROM sync_jobs AS job JOIN connected_accounts AS account ON account.id = job.account_id
WHERE job.platform = %(platform)s AND job.day_calls_at IS NOT NULL
GROUP BY account.id ORDER BY calls DESC, account.id LIMIT 1
"""


def _rest(jobs: list[JobView], after: JobMark | None) -> list[JobView]:
    """Return the jobs after the last one shown; a seller has a few dozen."""
    if after is None:
        return jobs
    ids = [job.id for job in jobs]
    return jobs[ids.index(after.id) + 1 :] if after.id in ids else []


class AccountQueries:
    """Queries on the account lane; each result is of one instant."""

    def __init__(
        self,
        pool: Pool,
        rule: JobRule,
        days: Mapping[PlatformName, Resource],
        demand: DayDemand,
        *,
        platforms: Collection[PlatformName],
        forecasts: JobForecasts | None = None,
    ) -> None:
        self._demand = demand
        self._pool = pool
        self._rule = rule
        self._days = days
        self._platforms = platforms
        self._forecasts = forecasts or JobForecasts(pool, rule, days, demand)

    def over(self, pool: Pool) -> "AccountQueries":
        """Return the same queries over another pool, such as one with tenant isolation."""
        return self._over(pool, self._forecasts)

    def through(self, pool: Pool) -> "AccountQueries":
        """Return the same queries, all of them through a connection that the caller holds."""
        return self._over(pool, self._forecasts.through(pool))

    def _over(self, pool: Pool, forecasts: JobForecasts) -> "AccountQueries":
        return AccountQueries(
            pool,
            self._rule,
            self._days,
            self._demand,
            platforms=self._platforms,
            forecasts=forecasts,
        )

    def status(self, now: datetime, *, user_id: SellerId | None = None) -> AccountsStatus:
        """Return everything the first page shows, of all sellers or of one."""
        with guarded(), self._pool.connection() as connection:
            budgets = read_budgets(connection, now, self._days, self._demand)
            state = self._queue_state(connection, now, budgets)
            if user_id is None:
                status = accounts_status(
                    connection, now, rule=self._rule, state=state, budgets=budgets
                )
            else:
                status = seller_status(connection, now, user_id, rule=self._rule, state=state)
        jobs = self._forecasts.refine_all(status.queue, state, now)
        return replace(status, queue=tuple(jobs))

    def accounts(
        self,
        *,
        user_id: SellerId | None = None,
        platform: PlatformName | None = None,
        account_id: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[AccountView, ...]:
        """Return accounts, those that need a person first, from a cursor on; or one by its id."""
        with guarded(), self._pool.connection() as connection:
            return read_accounts(
                connection,
                user_id=user_id,
                platform=platform,
                account_id=account_id,
                limit=limit,
                cursor=cursor,
            )

    def sellers(self, now: datetime, user_ids: Collection[SellerId]) -> tuple[SellerView, ...]:
        """Return what these sellers have used of the month's orders."""
        with guarded(), self._pool.connection() as connection:
            return read_sellers(connection, now, user_ids, rule=self._rule)

    def jobs(
        self,
        now: datetime,
        *,
        user_id: SellerId | None = None,
        platform: PlatformName | None = None,
        status: JobStatus | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> list[JobView]:
        """Return jobs in the order in which they run: all, or one seller's, or of one status."""
        after = mark_of(cursor)
        with guarded(), self._pool.connection() as connection:
            state = self._queue_state(connection, now)
            if user_id is not None:
                views = of_seller(connection, now, state, user_id, platform=platform)
                rest = _rest(views, after)
                views = [job for job in rest if status in {None, job.status}][:limit]
            elif status is not None:
                views = of_status(
                    connection, now, state, status, platform=platform, limit=limit, after=after
                )
            else:
                views = queue(connection, now, state, platform=platform, limit=limit, after=after)
        return self._forecasts.refine_all(views, state, now)

    def places(self, now: datetime, jobs: Sequence[JobView]) -> list[int]:
        """Return the place of each job in the whole queue, up to a bound."""
        marks = [mark_of(job.cursor) for job in jobs]
        with guarded(), self._pool.connection() as connection:
            state = self._queue_state(connection, now)
            return [up_to(connection, now, state, mark) for mark in marks if mark is not None]

    def of_account(
        self, now: datetime, account_id: str, *, user_id: SellerId | None = None
    ) -> list[JobView] | None:
        """Return the jobs of an account; None if the seller has no such account."""
        if not is_uuid(account_id):
            return None
        with guarded(), self._pool.connection() as connection:
            values = {"id": account_id, "user_id": user_id}
            if connection.execute(ACCOUNT_EXISTS, values).fetchone() is None:
                return None
            state = self._queue_state(connection, now)
            views = of_account(connection, now, state, account_id)
        return self._forecasts.refine_all(views, state, now)

    def job(self, now: datetime, name: str) -> JobView | None:
        """Return a job by its id or as `seller/platform/kind`; None if there is none."""
        with guarded(), self._pool.connection() as connection:
            state = self._queue_state(connection, now)
            view = find(connection, now, state, name)
        return None if view is None else self._forecasts.refine(view, state, now)

    def budgets(self, now: datetime) -> tuple[Budget, ...]:
        """Return the day of each platform that has a quota."""
        with guarded(), self._pool.connection() as connection:
            return read_budgets(connection, now, self._days, self._demand)

    def admissions(
        self,
        now: datetime,
        kinds: Mapping[PlatformName, Sequence[DataKind]],
        *,
        tier: Tier,
        sellers: int,
    ) -> tuple[PlatformAdmission, ...]:
        """Return what more sellers of a tier mean for each platform that has a day."""
        with guarded(), self._pool.connection() as connection:
            days = read_day_outlooks(connection, now, self._days, self._demand)
        return tuple(
            admission(
                platform,
                day.plan,
                self._demand.costs(platform),
                self._rule,
                kinds=tuple(kinds[platform]),
                tier=tier,
                sellers=sellers,
            )
            for platform, day in days.items()
        )

    def top_account(self, now: datetime, platform: PlatformName) -> tuple[str, float]:
        """Return the seller and shop that made most calls of the last day, and how many."""
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(TOP_ACCOUNT, {"platform": platform, "now": now}).fetchone()
        return ("", 0.0) if row is None else (row[0], row[1])

    def _queue_state(
        self, connection: Connection, now: datetime, budgets: Collection[Budget] | None = None
    ) -> JobQueueState:
        if budgets is None:
            budgets = read_budgets(connection, now, self._days, self._demand)
        return read_queue_state(
            connection, now, rule=self._rule, platforms=self._platforms, budgets=budgets
        )
