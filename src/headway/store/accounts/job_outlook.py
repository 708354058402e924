"""What a forecast of jobs needs: the queue, the runs under way, and the platforms' days.

For one job it is read afresh. For lists all jobs are foreseen at once, and again after a minute.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from headway.core.accounts.job_outlook import HORIZON, JobOutlook, foresee_jobs
from headway.core.accounts.jobs import (
    DataKind,
    JobCandidate,
    JobRule,
    JobStatus,
    JobType,
    PlatformName,
    Tier,
)
from headway.core.accounts.reasons import JobQueueState, JobState
from headway.core.limits.rules import Resource
from headway.core.reasons import format_time
from headway.store.accounts.job_list import JobView
from headway.store.limits.day_demand import DayDemand
from headway.store.limits.quotas import read_day_outlooks
from headway.store.pool import Pool, guarded

# How many jobs are played forward, the soonest ones; the others are said to run when they are due.
JOBS_MAX = 5000
HISTORIES_READ = 200
KEPT = timedelta(minutes=1)
COLUMNS = (
    "id", "account_id", "user_id", "platform", "score", "tier", "type", "due_at",
    "calls_estimate", "run_calls", "kind", "day_calls", "day_calls_at",
    "started_at",
)  # fmt: skip
CONGESTED = frozenset(
    {
        JobState.BUDGET,
        JobState.RATE_LIMITED,
        JobState.NO_ANSWER,
        JobState.BUSY,
        JobState.FULL,
        JobState.IN_LINE,
    }
)
# An expectation that differs by less than this is not worth a sentence.
SOON = timedelta(minutes=1)
# How long a call takes where nothing is known.
CALL_LASTS = timedelta(seconds=1)

WAITING = f"""
SELECT job.id::text, job.account_id::text, job.user_id, job.platform, job.score, job.tier,
  job.job_type, job.next_run_at, job.calls_estimate, job.run_calls, job.kind, job.day_calls,
  job.day_calls_at, job.started_at, job.status, job.completed_at
FROM sync_jobs AS job
LEFT JOIN profiles AS profile ON profile.user_id = job.user_id
WHERE job.platform = ANY (%(platforms)s) AND job.status IN ('queued', 'running', 'completed',
    'failed') AND job.next_run_at <= %(until)s AND job.user_id <> ALL (%(paused)s)
  AND NOT coalesce(profile.orders_month = %(month)s AND profile.orders_count >=
    (%(quotas)s::jsonb ->> profile.tier)::integer, false)
ORDER BY job.next_run_at LIMIT {JOBS_MAX}
"""
HISTORIES = f"""
SELECT platform, avg(queries_used) FROM (
  SELECT platform, queries_used FROM sync_jobs
  WHERE is_backfill AND status = 'completed' AND platform = ANY (%(platforms)s)
  LIMIT {HISTORIES_READ}) AS few
GROUP BY platform
"""


@dataclass(slots=True, kw_only=True)
class _Kept:
    """A forecast of all jobs, by id and due time: a job that ran since has another."""

    at: datetime | None = None
    runs_at: Mapping[tuple[str, datetime], datetime] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class JobForecasts:
    """Forecasts of when jobs run, where they wait for a day or for a free place.

    They are read over one pool, whoever asks: a seller's jobs wait for those of others.
    """

    def __init__(
        self,
        pool: Pool,
        rule: JobRule,
        days: Mapping[PlatformName, Resource],
        demand: DayDemand,
        kept: _Kept | None = None,
    ) -> None:
        self._pool = pool
        self._rule = rule
        self._days = days
        self._demand = demand
        self._kept = kept or _Kept()

    def through(self, pool: Pool) -> "JobForecasts":
        """Return the same forecasts, read through a connection that the caller holds."""
        return JobForecasts(pool, self._rule, self._days, self._demand, self._kept)

    def refine(self, view: JobView, state: JobQueueState, now: datetime) -> JobView:
        """Return a job's view with the instant at which it will run."""
        if not _is_uncertain(view, state):
            return view
        times = foresee_jobs(self._read(now, state), now, [view.id])
        return expected(view, times.get(view.id), now)

    def refine_all(
        self, views: Sequence[JobView], state: JobQueueState, now: datetime
    ) -> list[JobView]:
        """Return the views with the instants at which their jobs will run."""
        if not any(_is_uncertain(view, state) for view in views):
            return list(views)
        times = self._all(now, state)
        return [
            expected(view, view.due_at and times.get((view.id, view.due_at)), now)
            if _is_uncertain(view, state)
            else view
            for view in views
        ]

    def _all(self, now: datetime, state: JobQueueState) -> Mapping[tuple[str, datetime], datetime]:
        """Return when all jobs run, as foreseen within the last minute."""
        kept = self._kept
        with kept.lock:
            if kept.at is None or not timedelta(0) <= now - kept.at < KEPT:
                outlook = self._read(now, state)
                times = foresee_jobs(outlook, now, [job.id for job in outlook.jobs])
                due = {job.id: job.due_at for job in outlook.jobs}
                kept.runs_at = {(id_, due[id_]): at for id_, at in times.items()}
                kept.at = now
            return kept.runs_at

    def _read(self, now: datetime, state: JobQueueState) -> JobOutlook:
        values = {
            "platforms": list(state.platforms),
            "until": now + HORIZON,
            "paused": [pause.seller for pause in state.pauses if pause.seller is not None],
            "month": now.date().replace(day=1),
            "quotas": json.dumps(self._rule.order_quotas),
        }
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(WAITING, values).fetchall()
            histories = connection.execute(HISTORIES, values).fetchall()
            days = read_day_outlooks(connection, now, self._days, self._demand)
        jobs: dict[bool, list[JobCandidate]] = {False: [], True: []}
        for *candidate, status, _ in rows:
            jobs[status == JobStatus.RUNNING].append(_candidate(candidate))
        return JobOutlook(
            jobs=jobs[False],
            running=jobs[True],
            days=days,
            rule=self._rule,
            opens_at=_opens_at(state),
            call_lasts=_call_lasts(rows),
            history_calls={PlatformName(name): float(calls) for name, calls in histories},
        )


def expected(shown: JobView, runs_at: datetime | None, now: datetime) -> JobView:
    """Return a job's view with the instant at which it is expected to run, if that is known."""
    if runs_at is None:
        return shown
    until = max(now, runs_at)
    is_known = shown.until is not None and until - shown.until <= SOON
    more = "" if is_known else f" It is expected to run at about {format_time(until, now)}."
    return replace(shown, until=until, reason=f"{shown.reason}{more}")


def _is_uncertain(view: JobView, state: JobQueueState) -> bool:
    """Return True if a job may have to wait for longer than until it is due."""
    if view.state in CONGESTED:
        return True
    is_short = any(
        platform == view.platform and times > 1 for (platform, _), times in state.stretch.items()
    ) or any(platform == view.platform for platform, _ in state.shut)
    return is_short and view.state in {JobState.NOT_DUE, JobState.BACKOFF}


def _opens_at(state: JobQueueState) -> dict[PlatformName, datetime]:
    """Return until when platforms take no call at all."""
    return {
        platform: shut.until
        for (platform, _), shut in state.shut.items()
        if shut.state is not JobState.BUDGET
    }


def _call_lasts(rows: Sequence[Sequence[Any]]) -> timedelta:
    """Return how long a run usually takes for each of its calls."""
    spans = []
    for row in rows:
        started_at, completed_at = row[COLUMNS.index("started_at")], row[-1]
        calls = row[COLUMNS.index("calls_estimate")]
        if completed_at is not None and started_at is not None and started_at < completed_at:
            spans.append((completed_at - started_at) / max(1.0, calls))
    return median(spans) if spans else CALL_LASTS


def _candidate(row: Sequence[Any]) -> JobCandidate:
    values = dict(zip(COLUMNS, row, strict=True))
    return JobCandidate(
        **{
            **values,
            "tier": Tier(values["tier"]),
            "type": JobType(values["type"]),
            "kind": DataKind(values["kind"]),
        }
    )
