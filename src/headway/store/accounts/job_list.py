"""Lists of jobs: in the order in which they run, each with what blocks it.

The queue itself is in `job_queue`. Nothing here writes.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import NoneType
from typing import Any
from uuid import UUID

from psycopg import Connection

from headway.core.accounts.job_order import JobMark, ahead_before, list_order, place
from headway.core.accounts.jobs import (
    SCORES,
    DataKind,
    JobRule,
    JobStatus,
    JobType,
    PlatformName,
    Tier,
)
from headway.core.accounts.reasons import (
    JobAnswer,
    JobPosition,
    JobQueueState,
    JobState,
    Shut,
    aged,
    explain_job,
)
from headway.core.catalog.listings import SellerId
from headway.core.limits.daily_shares import DayShare
from headway.core.pauses import PauseKind
from headway.errors import InvalidError
from headway.store import cursors
from headway.store.limits.quotas import Budget
from headway.store.pauses import standing as standing_pauses

AHEAD_MAX = 1000
COUNT_MAX = 10_000
ROWS_COUNTED_MAX = 5_000
MARK = "job"
YEARS = (1970, 9000)

COLUMNS = """
job.id::text, job.account_id::text, job.user_id, job.platform, account.shop, job.kind,
job.job_type, job.tier, job.score, job.status, job.next_run_at, job.started_at, job.completed_at,
job.lease_until, job.lease_owner, job.retry_count, coalesce(job.last_error, ''),
CASE job.status WHEN 'cancelled' THEN account.reason ELSE job.wait_reason END,
job.calls_estimate, job.run_calls, job.queries_used, job.updated_at
"""
SELECTED = f"""
SELECT {COLUMNS} FROM ({{jobs}}) AS job
JOIN connected_accounts AS account ON account.id = job.account_id
"""
RESTING = "status IN ('completed', 'failed', 'plan_limit_reached') AND next_run_at IS NOT NULL"
OF_STATUS = """
SELECT * FROM sync_jobs AS job WHERE status = %(status)s AND platform = ANY (%(platforms)s) {after}
ORDER BY {order} LIMIT %(limit)s
"""
OF_SELLER = "SELECT * FROM sync_jobs WHERE user_id = %(user_id)s AND platform = ANY (%(platforms)s)"
OF_ACCOUNT = "SELECT * FROM sync_jobs WHERE account_id = %(account_id)s"
ONE = "SELECT * FROM sync_jobs WHERE id = %(id)s"
NAMED = """
SELECT * FROM sync_jobs WHERE user_id = %(user_id)s AND platform = %(platform)s
  AND kind = %(kind)s AND is_backfill = %(is_backfill)s
"""
SPENT = """
SELECT user_id FROM profiles WHERE user_id = ANY (%(sellers)s) AND orders_month = %(month)s
  AND orders_count >= (%(quotas)s::jsonb ->> tier)::integer
"""
# In order, so that each class is a scan of the claim's index, however few jobs there are.
AHEAD = """
SELECT coalesce(sum(few.count), 0)::integer, coalesce(max(few.count), 0) > %(most)s
FROM unnest(%(platforms)s::text[], %(scores)s::smallint[], %(before)s::timestamptz[])
  AS class (platform, score, before)
CROSS JOIN LATERAL (SELECT count(*) FROM (
  SELECT FROM sync_jobs AS queued WHERE status = 'queued' AND platform = class.platform
    AND score = class.score AND next_run_at < class.before AND next_run_at <= %(now)s
    AND user_id <> ALL (%(paused)s::text[])
  ORDER BY next_run_at LIMIT %(most)s + 1) AS first) AS few
"""
COUNTS = f"""
SELECT (SELECT count(*) FROM (
  SELECT FROM unnest(%(platforms)s::text[], %(scores)s::smallint[]) AS class (platform, score)
  CROSS JOIN LATERAL (
    SELECT FROM sync_jobs WHERE status = 'queued' AND platform = class.platform
      AND score = class.score AND next_run_at <= %(now)s
    ORDER BY next_run_at LIMIT %(most)s) AS first
  LIMIT %(most)s) AS few)
  + (SELECT count(*) FROM (SELECT FROM sync_jobs
     WHERE {RESTING} AND next_run_at <= %(now)s LIMIT %(most)s) AS rest),
  (SELECT count(*) FROM (SELECT FROM sync_jobs WHERE status = 'dead' LIMIT %(most)s) AS dead)
"""
BREAKERS = """
SELECT limit_key, open_until, reason FROM breaker
WHERE limit_key = ANY (%(platforms)s) AND open_until > %(now)s
"""
# Rows read by a run so far; NULL where counting would take long.
ROWS_READ = """
SELECT job.id::text, CASE job.kind WHEN 'orders' THEN orders.read ELSE listings.read END
FROM sync_jobs AS job
CROSS JOIN LATERAL (SELECT CASE WHEN count(*) <= %(most)s
    THEN count(*) FILTER (WHERE checked_at >= job.started_at) END AS read
  FROM (SELECT checked_at FROM orders WHERE job.kind = 'orders' AND account_id = job.account_id
        LIMIT %(most)s + 1) AS few) AS orders
CROSS JOIN LATERAL (SELECT CASE WHEN count(*) <= %(most)s THEN count(*) END AS read
  FROM (SELECT FROM listings WHERE job.kind = 'listings' AND account_id = job.account_id
        AND state <> 'removed' AND checked_at >= job.started_at LIMIT %(most)s + 1) AS few
  ) AS listings
WHERE job.status = 'running' AND job.kind IN ('orders', 'listings')
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """How jobs of one status are sorted, and what comes after a mark."""

    by: str
    of: Callable[["JobMark"], datetime | None]
    after: str
    after_none: str = "AND false"


NEWEST = _Order(
    by="job.updated_at DESC, job.id",
    of=lambda mark: mark.changed_at,
    after="AND updated_at <= %(after_at)s AND (updated_at < %(after_at)s OR id > %(after_id)s)",
)
SOONEST = _Order(
    by="job.next_run_at, job.id",
    of=lambda mark: mark.due_at,
    after="AND ((next_run_at, id) > (%(after_at)s, %(after_id)s) OR next_run_at IS NULL)",
    after_none="AND next_run_at IS NULL AND id > %(after_id)s",
)
ORDERS = {
    JobStatus.RUNNING: _Order(
        by="job.started_at, job.id",
        of=lambda mark: mark.started_at,
        after="AND (started_at, id) > (%(after_at)s, %(after_id)s)",
    ),
    JobStatus.DEAD: NEWEST,
    JobStatus.CANCELLED: NEWEST,
}
FIELDS = tuple(name for name in JobPosition.__dataclass_fields__)[:22]
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job with its reason to wait; `place` among the due jobs, None for the others.

    `aged_score` is the score and what waiting has added. `rows_read` is of the run under way, None
    where it is not known.
    """

    id: str
    name: str
    account_id: str
    user_id: SellerId
    tier: Tier
    platform: PlatformName
    shop: str
    kind: DataKind
    type: JobType
    status: JobStatus
    state: JobState
    reason: str
    until: datetime | None
    place: int | None
    score: int
    aged_score: float
    due_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    failures: int
    last_error: str
    calls_estimate: float
    run_calls: int
    rows_read: int | None
    calls_total: int
    changed_at: datetime | None = None

    @property
    def cursor(self) -> str:
        """The cursor of the page after this item."""
        return cursors.encode(
            MARK, self.score, self.due_at, self.started_at, self.changed_at, self.id
        )


def mark_of(cursor: str | None) -> JobMark | None:
    """Decode the cursor of a page; raise InvalidError if it belongs to another list."""
    if cursor is None:
        return None
    at = (datetime, NoneType)
    name, score, due_at, started_at, changed_at, id_ = cursors.decode(
        cursor, str, int, at, at, at, str
    )
    # A score and a year that no job has would lead beyond the calendar.
    is_odd = score not in SCORES or (due_at and not YEARS[0] < due_at.year < YEARS[1])
    if name != MARK or is_odd or not is_uuid(id_):
        raise InvalidError(cursors.STRANGE)
    return JobMark(score=score, due_at=due_at, started_at=started_at, changed_at=changed_at, id=id_)


def read_line(
    connection: Connection, now: datetime, *, rule: JobRule, budgets: Iterable[Budget]
) -> JobQueueState:
    """Read what every job waits for."""
    running = read_jobs(connection, OF_STATUS.format(order="job.id", after=""), _running(rule))
    shut = {
        (budget.platform, share): Shut(
            state=JobState.TOLD_TO_WAIT if budget.paused_until else JobState.BUDGET,
            explain_job=budget.why_shut(share),
            until=until,
        )
        for budget in budgets
        for share, until in budget.from_at.items()
        if until is not None
    }
    names = {"platforms": list(PlatformName), "now": now}
    for limit_key, until, reason in connection.execute(BREAKERS, names).fetchall():
        down = Shut(
            state=JobState.NO_ANSWER,
            explain_job=f"{limit_key.capitalize()} does not answer ({reason or 'no reason given'})",
            until=until,
        )
        shut |= {(PlatformName(limit_key), share): down for share in DayShare}
    return JobQueueState(
        running_count=len(running),
        running_max=rule.running_max,
        ageing=rule.ageing,
        busy={job.account_id for job in running},
        pauses=standing_pauses(connection, now, kinds=(PauseKind.ALL, PauseKind.SELLER)),
        shut=shut,
        order_quotas=rule.order_quotas,
    )


def of_status(
    connection: Connection,
    now: datetime,
    line: JobQueueState,
    status: JobStatus,
    *,
    platform: PlatformName | None = None,
    limit: int,
    after: JobMark | None = None,
) -> list[JobView]:
    """Return the jobs of a status; waiting ones in the order in which they run."""
    order = ORDERS.get(status, SOONEST)
    values = {**classes(platform), "status": status.value, "limit": limit}
    where = ""
    if after is not None:
        where = order.after_none if order.of(after) is None else order.after
        values |= {"after_at": order.of(after), "after_id": after.id}
    chosen = OF_STATUS.format(order=order.by, after=where)
    jobs = read_jobs(connection, chosen, values, order=order.by)
    rows = rowsread_jobs(connection) if status is JobStatus.RUNNING else {}
    return [view(job, line, now, rows=rows.get(job.id)) for job in jobs]


def of_seller(
    connection: Connection,
    now: datetime,
    line: JobQueueState,
    user_id: SellerId,
    *,
    platform: PlatformName | None = None,
) -> list[JobView]:
    """Return all jobs of a seller: running, due, coming, ended."""
    values = {**classes(platform), "user_id": user_id}
    return _all(connection, OF_SELLER, values, line, now)


def of_account(
    connection: Connection, now: datetime, line: JobQueueState, account_id: str
) -> list[JobView]:
    """Return all jobs of an account, in the same order."""
    return _all(connection, OF_ACCOUNT, {"account_id": account_id}, line, now)


def find(connection: Connection, now: datetime, line: JobQueueState, name: str) -> JobView | None:
    """Return a job by its id or as `seller/platform/kind`; None if there is none."""
    statement, values = _where(name)
    jobs = read_jobs(connection, statement, values)
    if not jobs:
        return None
    (job,) = _with_quotas(connection, jobs[:1], line, now)
    return view(_placed(connection, job, line, now), line, now)


def is_job_name(text: str) -> bool:
    """Return True if a text names a job rather than a part."""
    try:
        _where(text)
    except ValueError:
        return False
    return True


def is_uuid(text: str) -> bool:
    """Return True if a text is a UUID."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def counts(connection: Connection, now: datetime) -> tuple[int, int]:
    """Count the jobs that are due and those that are dead, each up to a bound."""
    values = {**classes(None), "now": now, "most": COUNT_MAX}
    due, dead = connection.execute(COUNTS, values).fetchall()[0]
    return min(due, COUNT_MAX), dead


def rowsread_jobs(connection: Connection) -> dict[str, int | None]:
    """Return how many rows the running jobs have read, by job."""
    return dict(connection.execute(ROWS_READ, {"most": ROWS_COUNTED_MAX}).fetchall())


def view(
    standing: JobPosition, line: JobQueueState, now: datetime, *, rows: int | None = None
) -> JobView:
    """Return the view of a job."""
    answer: JobAnswer = explain_job(standing, line, now)
    return JobView(
        id=standing.id,
        name=standing.name,
        account_id=standing.account_id,
        user_id=standing.user_id,
        tier=standing.tier,
        platform=standing.platform,
        shop=standing.shop,
        kind=standing.kind,
        type=standing.type,
        status=standing.status,
        state=answer.state,
        reason=answer.sentence,
        until=answer.until,
        place=place(standing, now),
        score=standing.score,
        aged_score=round(aged(standing, line, now), 1),
        due_at=standing.next_run_at,
        started_at=standing.started_at,
        completed_at=standing.completed_at,
        failures=standing.retry_count,
        last_error=standing.last_error,
        calls_estimate=round(standing.calls_estimate, 1),
        run_calls=standing.run_calls,
        rows_read=rows,
        calls_total=standing.queries_used,
        changed_at=standing.changed_at,
    )


def _all(
    connection: Connection, statement: str, values: Values, line: JobQueueState, now: datetime
) -> list[JobView]:
    jobs = _with_quotas(connection, read_jobs(connection, statement, values), line, now)
    placed = [_placed(connection, job, line, now) for job in jobs]
    rows = rowsread_jobs(connection)
    views = [view(job, line, now, rows=rows.get(job.id)) for job in placed]
    return sorted(
        views,
        key=lambda shown: list_order(shown.status, shown.place, shown.due_at, shown.name, now),
    )


def _placed(
    connection: Connection, standing: JobPosition, line: JobQueueState, now: datetime
) -> JobPosition:
    """Count the jobs that go first: of each score, those that have waited long enough."""
    if not standing.is_due(now):
        return standing
    values = classes(None)
    before = ahead_before(standing, line, now, values["scores"])
    values |= {"before": before, "now": now, "most": AHEAD_MAX}
    values["paused"] = [pause.seller for pause in line.pauses if pause.seller is not None]
    ahead, has_more = connection.execute(AHEAD, values).fetchone() or (0, False)
    return replace(standing, ahead_count=min(ahead, AHEAD_MAX), has_more=has_more)


def _with_quotas(
    connection: Connection, jobs: Sequence[JobPosition], line: JobQueueState, now: datetime
) -> list[JobPosition]:
    """Mark the jobs whose seller's orders of the month are used up."""
    values = {
        "sellers": sorted({job.user_id for job in jobs}),
        "month": now.date().replace(day=1),
        "quotas": json.dumps(line.order_quotas),
    }
    spent = {user_id for (user_id,) in connection.execute(SPENT, values).fetchall()}
    return [replace(job, is_over_quota=job.user_id in spent) for job in jobs]


def _where(name: str) -> tuple[str, dict[str, Any]]:
    """Return the statement that finds a job by its name; raise ValueError if it is none."""
    seller, slash, rest = name.partition("/")
    if not slash:
        return ONE, {"id": str(UUID(name))}
    platform, kind, *more = rest.split("/")
    if more not in ([], ["history"]) or not seller:
        raise ValueError(name)
    return NAMED, {
        "user_id": seller,
        "platform": PlatformName(platform).value,
        "kind": DataKind(kind).value,
        "is_backfill": bool(more),
    }


def classes(platform: PlatformName | None) -> dict[str, Any]:
    """Return every platform and score, or those of one platform."""
    platforms = list(PlatformName) if platform is None else [platform]
    classes = [(platform.value, score) for platform in platforms for score in SCORES]
    return {
        "platforms": [name for name, _ in classes],
        "scores": [score for _, score in classes],
    }


def _running(rule: JobRule) -> Values:
    # More than may run are shown too, in case the maximum was lowered.
    values = {"status": JobStatus.RUNNING.value, "limit": 10 * rule.running_max}
    return {**classes(None), **values}


def read_jobs(
    connection: Connection, statement: str, values: Values, *, order: str = "job.id"
) -> list[JobPosition]:
    """Read the jobs that a statement chooses; a join may have changed their order."""
    chosen = f"{SELECTED.format(jobs=statement)} ORDER BY {order}"
    return [_standing(row) for row in connection.execute(chosen, values).fetchall()]


def _standing(row: Sequence[Any]) -> JobPosition:
    columns = dict(zip(FIELDS, row, strict=True))
    return JobPosition(
        **{
            **columns,
            "platform": PlatformName(columns["platform"]),
            "kind": DataKind(columns["kind"]),
            "type": JobType(columns["type"]),
            "tier": Tier(columns["tier"]),
            "status": JobStatus(columns["status"]),
        }
    )
