"""The rows of `sync_jobs`: claim with its budget, commit page by page, settle, rescue.

Every write of a claim names its fence, and is refused as a whole once the job is no longer its own.
Every end of a claim leaves an event, in the same transaction.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from psycopg import Connection

from headway.core.accounts.claims import (
    SCORES_BY_TIER,
    closed_to,
    event_of,
    plan_limit_notice,
    type_after,
)
from headway.core.accounts.jobs import (
    Account,
    DataKind,
    Ending,
    Job,
    JobRule,
    JobStatus,
    JobType,
    PlatformName,
    Tier,
    learn,
    rescheduled,
    stretched,
)
from headway.core.accounts.pagination import Page, PageStep
from headway.core.limits.daily_shares import DayPlan, share_of
from headway.errors import InvalidError, StoreError
from headway.store.accounts import connections, warehouse
from headway.store.accounts.external_writes import ExternalWrites
from headway.store.accounts.job_claim import Claimed, JobClaim, due_places, is_any_due
from headway.store.accounts.job_rows import lock_seller, postpone
from headway.store.accounts.unreadable_rows import is_rows_fault
from headway.store.limits.day_demand import DayDemand
from headway.store.limits.limiter import PostgresLimiter
from headway.store.pool import Pool, guarded
from headway.store.sql_files import read_sql

COMMIT = read_sql("accounts", "job_commit")
KEEP = """
UPDATE sync_jobs SET lease_until = %(lease_until)s, updated_at = %(now)s
WHERE id = %(id)s AND fence = %(fence)s AND status = 'running'
"""
OURS = """
SELECT tier FROM sync_jobs WHERE id = %(id)s AND fence = %(fence)s AND status = 'running'
FOR NO KEY UPDATE
"""
SETTLE = read_sql("accounts", "job_settle")
USED = """
INSERT INTO rate_budgets AS budget (limit_key, platform, hour, tier, is_backfill, used)
VALUES (%(limit_key)s, %(platform)s, %(hour)s, %(tier)s, %(is_backfill)s, %(calls)s)
ON CONFLICT (limit_key, hour, tier, is_backfill) DO UPDATE SET used = budget.used + excluded.used
"""
# A lost worker is not the job's fault: the job keeps its place. The second time in a row it may be,
# and others go first; from the fourth time on it waits twice as long each time, up to an hour.
RESCUE = """
WITH silent AS (
  SELECT id, lease_owner FROM sync_jobs WHERE status = 'running' AND lease_until < %(now)s
  ORDER BY lease_until LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), freed AS (
  UPDATE sync_jobs AS job SET status = 'queued', fence = fence + 1,
    next_run_at = CASE WHEN rescue_count = 0 THEN least(next_run_at, %(now)s)
      WHEN rescue_count < 3 THEN %(now)s
      ELSE %(now)s + least(60, 2 ^ least(rescue_count - 3, 6)) * interval '1 minute' END,
    rescue_count = least(rescue_count + 1, 1000), lease_owner = NULL, lease_until = NULL,
    wait_reason = 'its worker fell silent'
      || CASE WHEN rescue_count < 3 THEN '' ELSE format(', %%s times in a row', rescue_count + 1)
         END, updated_at = %(now)s
  FROM silent WHERE job.id = silent.id
  RETURNING job.id, job.user_id, job.platform, job.kind, job.job_type, job.started_at,
    job.run_calls, silent.lease_owner
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
SELECT user_id, id, %(now)s, 'job_rescued', jsonb_build_object('platform', platform, 'kind', kind,
  'job_type', job_type, 'started_at', started_at, 'queries_used', run_calls,
  'duration_s', extract(epoch FROM %(now)s - started_at), 'owner', lease_owner), %(now)s
FROM freed
"""
# Jobs that were postponed for longer than is needed by now.
RELAX = """
UPDATE sync_jobs SET next_run_at = greatest(%(now)s, started_at + %(span)s), updated_at = %(now)s
WHERE platform = %(platform)s AND tier = %(tier)s AND kind = %(kind)s AND status = 'completed'
  AND NOT is_backfill AND next_run_at > greatest(%(now)s, started_at + %(span)s) + %(slack)s
"""
# Dead jobs whose failures may have passed; not while their platform is down for everybody.
REVIVE_DUE = """
WITH due AS (
  SELECT id FROM sync_jobs AS job WHERE status = 'dead' AND revive_at <= %(now)s
    AND NOT EXISTS (SELECT FROM breaker WHERE limit_key = job.platform AND open_until IS NOT NULL)
  ORDER BY revive_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), revived AS (
  UPDATE sync_jobs AS job SET status = 'queued', next_run_at = %(now)s,
    retry_count = greatest(retry_count - 1, 0), wait_reason = '', updated_at = %(now)s
  FROM due WHERE job.id = due.id RETURNING job.*
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
SELECT user_id, id, %(now)s, 'job_revived',
  jsonb_build_object('platform', platform, 'kind', kind, 'job_type', job_type, 'tier', tier,
    'by', 'headway'), %(now)s
FROM revived
"""
RELAX_SLACK = timedelta(minutes=5)
FORGET_BUDGETS = "DELETE FROM rate_budgets WHERE hour < %s"


class Jobs:
    """Table `sync_jobs` behind the engine's port.

    `kinds` are the kinds of jobs of each platform whose jobs can run; `days` names the quota of a
    platform's day.
    """

    def __init__(
        self,
        pool: Pool,
        limiter: PostgresLimiter,
        rule: JobRule,
        *,
        kinds: Mapping[PlatformName, Sequence[DataKind]],
        days: Mapping[PlatformName, str] | None = None,
        demand: DayDemand | None = None,
    ) -> None:
        self._pool = pool
        self._limiter = limiter
        self._rule = rule
        self._kinds = kinds
        self._days = days or {}
        self._demand = demand or DayDemand(pool, rule)
        self._plans: dict[str, DayPlan] = {}
        self._warehouse = warehouse.Warehouse(pool)

    def follow(self, now: datetime) -> int:
        """Make jobs follow statuses and tiers that other programs set; return how many rows."""
        return ExternalWrites(self._pool, self._rule, kinds=self._kinds).follow(now)

    def claim(
        self, *, now: datetime, owner: str, without: Collection[PlatformName] = ()
    ) -> Claimed | None:
        """Lease the best job that may run now, and reserve its budget with it."""
        taken = self.claim_many(now=now, owner=owner, without=without, limit=1)
        return taken[0] if taken else None

    def claim_many(
        self, *, now: datetime, owner: str, without: Collection[PlatformName] = (), limit: int = 10
    ) -> list[Claimed]:
        """Lease several jobs, best first, in one transaction."""
        with guarded(), self._pool.connection() as connection:
            if not is_any_due(connection, now, self._kinds, without):
                return []
        self._limiter.create(tuple(self._days.values()))
        demand = {platform: self._demand.calls_per_day(platform, now) for platform in self._days}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            claim = JobClaim(
                connection=connection,
                limiter=self._limiter,
                rule=self._rule,
                days=self._days,
                demand=demand,
                now=now,
                owner=owner,
                platforms=self._kinds,
                closed=closed_to(without),
            )
            taken = claim.take(limit)
        self._plans |= claim.plans
        return taken

    def due_places(self, now: datetime, *, limit: int) -> dict[PlatformName, tuple[int, int]]:
        """Return how many jobs of each platform are due, up to a limit, and how many run."""
        with guarded(), self._pool.connection() as connection:
            return due_places(connection, now, self._kinds, limit=limit)

    def keep(self, job: Job, *, now: datetime) -> bool:
        """Renew the lease of a claimed job; return False if the lease was lost."""
        values = {"id": job.id, "fence": job.fence, "now": now}
        with guarded(), self._pool.connection() as connection:
            lease = {**values, "lease_until": now + self._rule.lease}
            return connection.execute(KEEP, lease).rowcount > 0

    def stretch(self, job: Job) -> float:
        """Return the factor by which a claimed job's interval is stretched to fit the day."""
        plan = self._plans.get(self._days.get(job.account.platform, ""))
        return 1.0 if plan is None else plan.stretch(share_of(job.tier, JobType.INCREMENTAL))

    def commit(
        self, job: Job, page: Page, step: PageStep, *, calls: int, asked_at: datetime, now: datetime
    ) -> Job | None:
        """Write a page, its cursor and a heartbeat in one transaction; None if the lease was lost.

        Rows that the database refuses are stored as unreadable. Raises InvalidError for a page that
        no table can hold even so.
        """
        values = {
            "id": job.id,
            "fence": job.fence,
            "cursor": json.dumps(step.cursor),
            "calls": calls,
            "is_progress": step.is_progress,
            "lease_until": now + self._rule.lease,
            "now": now,
        }

        def write(*, sets_aside: bool) -> tuple[Any, ...] | None:
            with _refusals(), self._pool.connection() as connection, connection.transaction():
                row = connection.execute(COMMIT, values).fetchone()
                if row is not None:
                    warehouse.write(
                        connection,
                        job.account,
                        page,
                        step,
                        kind=job.kind,
                        asked_at=asked_at,
                        now=now,
                        sets_aside=sets_aside,
                    )
                    self._count(connection, job, calls, now)
            return row

        try:
            row = write(sets_aside=False)
        except InvalidError:
            row = write(sets_aside=True)
        if row is None:
            return None
        run_calls, is_paused = row
        return replace(
            job,
            cursor=step.cursor,
            retry_count=0 if step.is_progress else job.retry_count,
            run_calls=run_calls,
            is_paused=is_paused,
        )

    def settle(
        self,
        job: Job,
        status: JobStatus,
        *,
        next_run_at: datetime | None,
        retry_count: int = 0,
        reason: str = "",
        revive_at: datetime | None = None,
        calls: int = 0,
        now: datetime,
    ) -> bool:
        """End a claim; return False if the lease was lost. A woken job is due at once."""
        ending = Ending(
            status=status,
            next_run_at=next_run_at,
            retry_count=retry_count,
            reason=reason,
            revive_at=revive_at,
        )
        with guarded(), self._pool.connection() as connection, connection.transaction():
            if status is JobStatus.LIMITED and _has_moved(connection, job):
                ending = rescheduled(job, now, "")
            values = _settled(job, ending, calls=calls, now=now)
            is_ours = connection.execute(SETTLE, values).rowcount == 1
            # A call that was made counts, even if the lease was lost.
            self._count(connection, job, calls, now)
        return is_ours

    def relax(self, now: datetime) -> int:
        """Let jobs run sooner if their platform's day has room again; return how many."""
        count = 0
        for platform, key in self._days.items():
            limit = self._limiter.status(key).gauges[0].limit
            plan = DayPlan(limit=limit, demand=self._demand.calls_per_day(platform, now))
            for tier, kind in product(Tier, self._kinds[platform]):
                stretch = plan.stretch(share_of(tier, JobType.INCREMENTAL))
                values = {
                    "platform": platform,
                    "tier": tier.value,
                    "kind": kind.value,
                    "span": stretched(tier, kind, self._rule, stretch),
                    "slack": RELAX_SLACK,
                    "now": now,
                }
                with guarded(), self._pool.connection() as connection:
                    count += connection.execute(RELAX, values).rowcount
        return count

    def postpone(self, account: Account, until: datetime, reason: str, *, now: datetime) -> int:
        """Let no waiting job of an account run before then; return how many have to wait."""
        with guarded(), self._pool.connection() as connection:
            return postpone(connection, account, until, reason, now=now)

    def open_orders(self, account: Account, *, checked_before: datetime, limit: int) -> list[str]:
        """Return open orders that were not read since then, the longest ago first."""
        return self._warehouse.open_orders(account, checked_before=checked_before, limit=limit)

    def orders_left(self, account: Account, *, now: datetime) -> int:
        """Return how many orders of this month the seller's tier still allows."""
        quotas = self._rule.order_quotas
        return self._warehouse.orders_left(account, now=now, quotas=quotas)

    def disconnect(self, job: Job, reason: str, *, calls: int = 0, now: datetime) -> bool:
        """Disconnect an account whose access is refused, cancel its jobs and notify the seller.

        Return False if the lease was lost: the account may have been connected again meanwhile.
        """
        with guarded(), self._pool.connection() as connection, connection.transaction():
            lock_seller(connection, job.account.user_id)
            self._count(connection, job, calls, now)
            if connection.execute(OURS, {"id": job.id, "fence": job.fence}).fetchone() is None:
                return False
            connections.disconnect(connection, job.account, reason, now=now)
        return True

    def rescue(self, now: datetime, *, limit: int = 100) -> int:
        """Queue jobs whose lease has expired, under a new fence; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(RESCUE, {"now": now, "limit": limit}).rowcount

    def revive_due(self, now: datetime, *, limit: int = 100) -> int:
        """Queue dead jobs whose failures may have passed; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(REVIVE_DUE, {"now": now, "limit": limit}).rowcount

    def forget(self, before: datetime) -> int:
        """Delete budget use before that instant; return how many rows."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(FORGET_BUDGETS, [before]).rowcount

    def _count(self, connection: Connection[Any], job: Job, calls: int, now: datetime) -> None:
        """Record the use of the platform's budget, by hour and tier."""
        if not calls:
            return
        platform = job.account.platform
        values = {
            "limit_key": self._days.get(platform, platform),
            "platform": platform,
            "hour": now.replace(minute=0, second=0, microsecond=0),
            "tier": job.tier,
            "is_backfill": job.type is JobType.BACKFILL,
            "calls": calls,
        }
        connection.execute(USED, values)


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise InvalidError if the database refuses a row, StoreError for trouble of its own."""
    try:
        with guarded():
            yield
    except StoreError as error:
        if is_rows_fault(error.__cause__):  # it would be so for ever
            raise InvalidError(f"a page cannot be stored: {error}") from error
        raise


_CHARGED = (JobStatus.FAILED, JobStatus.DEAD)


def _has_moved(connection: Connection[Any], job: Job) -> bool:
    """Return True if the seller's tier has changed; the job stays locked."""
    row = connection.execute(OURS, {"id": job.id, "fence": job.fence}).fetchone()
    return row is not None and row[0] != job.tier


def _settled(job: Job, ending: Ending, *, calls: int, now: datetime) -> dict[str, Any]:
    run_calls, status, reason = job.run_calls + calls, ending.status, ending.reason
    is_done, is_charged = status is JobStatus.COMPLETED, status in _CHARGED
    return {
        "id": job.id,
        "fence": job.fence,
        "status": status,
        "job_type": type_after(job.type, status),
        "scores_by_tier": json.dumps(SCORES_BY_TIER),
        "next_run_at": ending.next_run_at,
        "revive_at": ending.revive_at,
        "retry_count": ending.retry_count,
        "wait_reason": "" if is_done or is_charged else reason,
        "error": reason if is_charged else None,
        "notice": f"{_name(job)} stopped after {ending.retry_count} failures: {reason}",
        "this_month": f"{now:%Y-%m}",
        "plan_notice": plan_limit_notice(now),
        "estimate": learn(job.calls_estimate, run_calls) if is_done else None,
        "calls": calls,
        "event": event_of(status, reason),
        "facts": json.dumps(_facts(job, run_calls, reason, now)),
        "now": now,
    }


def _name(job: Job) -> str:
    history = " history" if job.type is JobType.BACKFILL else ""
    return f"Reading {job.kind}{history} of {job.account.platform} {job.account.shop}"


def _facts(job: Job, run_calls: int, reason: str, now: datetime) -> dict[str, object]:
    """Return the details of the event that ends a claim."""
    return {
        "platform": job.account.platform,
        "kind": job.kind,
        "job_type": job.type,
        "tier": job.tier,
        "started_at": job.started_at.isoformat(),
        "duration_s": (now - job.started_at).total_seconds(),
        "queries_used": run_calls,
        "reason": reason,
    }
