"""Demand for a platform's daily quota, and the use of it, by share."""

import threading
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import Connection

from headway.core.accounts.admission import RunCosts
from headway.core.accounts.job_outlook import HourCalls
from headway.core.accounts.jobs import (
    CALLS_MIN,
    DAY,
    DataKind,
    JobRule,
    PlatformName,
    Tier,
    interval,
)
from headway.core.limits.daily_shares import DayShare
from headway.store.pool import Pool, guarded

# This counts all jobs, so it runs seldom; the number of sellers changes slowly.
COUNT_EVERY = timedelta(minutes=10)
DEMAND = f"""
SELECT tier, kind, is_backfill, sum(CASE WHEN calls_estimate > 0 AND NOT is_backfill
  THEN calls_estimate ELSE {CALLS_MIN} END)
FROM sync_jobs
WHERE platform = %(platform)s
  AND status NOT IN ('dead', 'cancelled', 'paused', 'plan_limit_reached')
  AND NOT (is_backfill AND status = 'completed')
GROUP BY tier, kind, is_backfill
"""
USED = f"""
SELECT hour, CASE WHEN is_backfill THEN '{DayShare.HISTORY}'
  WHEN tier = '{Tier.FREE}' THEN '{DayShare.FREE}'
  ELSE '{DayShare.PAID}' END AS share, sum(used)
FROM rate_budgets WHERE limit_key = %(limit_key)s AND hour > %(since)s GROUP BY hour, share
"""


# What runs needed lately, by kind; and the calls of histories that are read to their end.
COSTS = """
SELECT kind, avg(calls_estimate) FILTER (WHERE NOT is_backfill AND calls_estimate > 0),
  avg(queries_used) FILTER (WHERE is_backfill AND status = 'completed')
FROM sync_jobs WHERE platform = %(platform)s GROUP BY kind
"""


class DayDemand:
    """Tables `sync_jobs` and `rate_budgets`, counted by share."""

    def __init__(self, pool: Pool, rule: JobRule) -> None:
        self._pool = pool
        self._rule = rule
        self._counted: dict[PlatformName, tuple[datetime, Mapping[DayShare, float]]] = {}
        self._lock = threading.Lock()

    def calls_per_day(
        self, platform: PlatformName, now: datetime, connection: Connection[Any] | None = None
    ) -> Mapping[DayShare, float]:
        """Return how many calls a day the jobs need at their intervals, as last counted.

        History has no interval: its demand is what its jobs need to make one step each.
        """
        with self._lock:
            counted = self._counted.get(platform)
            if counted is None or abs(now - counted[0]) > COUNT_EVERY:
                counted = self._counted[platform] = (now, self._count(platform, connection))
        return counted[1]

    def costs(self, platform: PlatformName) -> RunCosts:
        """Return what runs on a platform cost, as measured."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(COSTS, {"platform": platform}).fetchall()
        per_run = {DataKind(kind): float(calls) for kind, calls, _ in rows if calls}
        histories = [float(calls) for _, _, calls in rows if calls]
        if not histories:
            return RunCosts(per_run=per_run)
        return RunCosts(per_run=per_run, first=sum(histories) + sum(per_run.values()))

    def _count(
        self, platform: PlatformName, connection: Connection[Any] | None
    ) -> Mapping[DayShare, float]:
        lent = self._pool.connection() if connection is None else nullcontext(connection)
        with guarded(), lent as borrowed:
            rows = borrowed.execute(DEMAND, {"platform": platform}).fetchall()
        by_share = dict.fromkeys(DayShare, 0.0)
        for tier, kind, is_history, calls in rows:
            if is_history:
                by_share[DayShare.HISTORY] += calls
                continue
            share = DayShare.PAID if Tier(tier).is_paid else DayShare.FREE
            by_share[share] += calls * (DAY / interval(Tier(tier), DataKind(kind), self._rule))
        return by_share


def used_by_share(connection: Connection[Any], key: str, now: datetime) -> Mapping[DayShare, float]:
    """Return what each share has used of a day in the last 24 hours."""
    used = dict.fromkeys(DayShare, 0.0)
    for hour in used_by_hour(connection, key, now):
        used[hour.share] += hour.calls
    return used


def used_by_hour(connection: Connection[Any], key: str, now: datetime) -> list[HourCalls]:
    """Return what each share has used of a day in the last 24 hours, by hour."""
    values = {"limit_key": key, "since": now - DAY}
    return [
        HourCalls(hour=hour.astimezone(UTC), share=DayShare(share), calls=used)
        for hour, share, used in connection.execute(USED, values).fetchall()
    ]
