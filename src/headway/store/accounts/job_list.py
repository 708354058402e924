"""Lists of jobs: in the order in which they run, each with what blocks it.

The queue itself is in `job_queue`. Nothing here writes.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
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
    platform_name,
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
from headway.errors import ConflictError, InvalidError
from headway.store import cursors
from headway.store.limits.quotas import Budget
from headway.store.pauses import active_pauses
from headway.store.queries import is_uuid

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
job.calls_estimate, job.run_calls, job.queries_used, job.updated_at,
job.day_calls, job.day_calls_at, job.revive_at,
(SELECT count(*) FROM (SELECT FROM unreadable_records AS record
  WHERE record.account_id = job.account_id AND record.kind = job.kind LIMIT 100) AS few),
coalesce((SELECT external_id || ': ' || reason FROM unreadable_records AS record
  WHERE record.account_id = job.account_id AND record.kind = job.kind
  ORDER BY external_id LIMIT 1), '')
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
    JobStatus.PAUSED: NEWEST,
}
FIELDS = tuple(name for name in JobPosition.__dataclass_fields__)[:27]
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job with its reason to wait; `place` among the due jobs, None for the others.

    `aged_score` is the score and what waiting has added. `rows_read` is of the run under way, None
    where it is not known.
    """

    id: str
    """The job's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    name: str
    """The job's name: seller, platform and kind of data. Example: `acme/etsy/orders`"""
    account_id: str
    """The id of its account. Example: `0b7f5c1e-2d3a-4c9b-8e6f-1a2b3c4d5e6f`"""
    seller: SellerId
    tier: Tier
    platform: PlatformName
    shop: str
    kind: DataKind
    """What it pulls."""
    type: JobType
    """Why it runs."""
    status: JobStatus
    """Where it stands, as stored."""
    state: JobState
    """What it does, or what it waits for."""
    reason: str
    """What it does or waits for, in a sentence. Example: `Waiting for the rate limit.`"""
    until: datetime | None
    """Until when it waits; null if nobody knows."""
    place: int | None
    """Its place among the due jobs; null if it is not due."""
    score: int
    """Its score by tier, type and kind; the highest runs first."""
    aged_score: float
    """Its score with the time it has waited."""
    due_at: datetime | None
    """When it is due; null if it will not run."""
    started_at: datetime | None
    """When the run under way started; null if none is."""
    completed_at: datetime | None
    """When it last completed; null if it never has."""
    failures: int
    last_error: str
    calls_estimate: float
    """Calls that the next run is expected to need."""
    run_calls: int
    """Calls of the run under way."""
    rows_read: int | None
    """Rows that the run under way has read; null if none is."""
    calls_total: int
    """Calls of all its runs."""
    changed_at: datetime | None = None
    """When its state last changed."""

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
        raise InvalidError(cursors.INVALID)
    return JobMark(score=score, due_at=due_at, started_at=started_at, changed_at=changed_at, id=id_)


def read_queue_state(
    connection: Connection,
    now: datetime,
    *,
    rule: JobRule,
    platforms: Collection[PlatformName],
    budgets: Collection[Budget],
) -> JobQueueState:
    """Read what every job waits for."""
    values = _running(rule, platforms)
    running = read_jobs(connection, OF_STATUS.format(order="job.id", after=""), values)
    shut = {
        (budget.platform, share): Shut(
            state=JobState.RATE_LIMITED if budget.paused_until else JobState.BUDGET,
            explain_job=budget.why_shut(share),
            until=until,
        )
        for budget in budgets
        for share, until in budget.from_at.items()
        if until is not None
    }
    names = {"platforms": list(platforms), "now": now}
    for limit_key, until, reason in connection.execute(BREAKERS, names).fetchall():
        down = Shut(
            state=JobState.NO_ANSWER,
            explain_job=f"{limit_key.capitalize()} does not answer ({reason or 'no reason given'})",
            until=until,
        )
        shut |= {(PlatformName(limit_key), share): down for share in DayShare}
    return JobQueueState(
        platforms=tuple(platforms),
        running_count=len(running),
        running_max=rule.running_max,
        ageing=rule.ageing,
        busy={job.account_id for job in running},
        pauses=active_pauses(connection, now, kinds=(PauseKind.ALL, PauseKind.SELLER)),
        shut=shut,
        order_quotas=rule.order_quotas,
        rule=rule,
        stretch={
            (budget.platform, share): times
            for budget in budgets
            for share, times in budget.stretch.items()
        },
    )


def of_status(
    connection: Connection,
    now: datetime,
    state: JobQueueState,
    status: JobStatus,
    *,
    platform: PlatformName | None = None,
    limit: int,
    after: JobMark | None = None,
) -> list[JobView]:
    """Return the jobs of a status; waiting ones in the order in which they run."""
    order = ORDERS.get(status, SOONEST)
    values = {**classes(state.platforms, platform), "status": status.value, "limit": limit}
    where = ""
    if after is not None:
        where = order.after_none if order.of(after) is None else order.after
        values |= {"after_at": order.of(after), "after_id": after.id}
    chosen = OF_STATUS.format(order=order.by, after=where)
    jobs = read_jobs(connection, chosen, values, order=order.by)
    rows = rows_read(connection) if status is JobStatus.RUNNING else {}
    return [view(job, state, now, rows=rows.get(job.id)) for job in jobs]


def of_seller(
    connection: Connection,
    now: datetime,
    state: JobQueueState,
    user_id: SellerId,
    *,
    platform: PlatformName | None = None,
) -> list[JobView]:
    """Return all jobs of a seller: running, due, coming, ended."""
    values = {**classes(state.platforms, platform), "user_id": user_id}
    return _all(connection, OF_SELLER, values, state, now)


def of_account(
    connection: Connection, now: datetime, state: JobQueueState, account_id: str
) -> list[JobView]:
    """Return all jobs of an account, in the same order."""
    return _all(connection, OF_ACCOUNT, {"account_id": account_id}, state, now)


def find(connection: Connection, now: datetime, state: JobQueueState, name: str) -> JobView | None:
    """Return a job by its id or as `seller/platform/kind`; None if there is none."""
    statement, values = _where(name)
    jobs = read_jobs(connection, statement, values)
    if not jobs:
        return None
    if jobs[1:]:
        names = ", ".join(f"{job.id} ({job.shop})" for job in jobs)
        raise ConflictError(f"{name} is a job of several shops; use its id: {names}")
    (job,) = _with_quotas(connection, jobs, state, now)
    return view(_placed(connection, job, state, now), state, now)


def is_job_name(text: str) -> bool:
    """Return True if a text names a job rather than a part."""
    try:
        _where(text)
    except (ValueError, InvalidError):
        return False
    return True


def counts(
    connection: Connection, now: datetime, platforms: Collection[PlatformName]
) -> tuple[int, int]:
    """Count the jobs that are due and those that are dead, each up to a bound."""
    values = {**classes(platforms), "now": now, "most": COUNT_MAX}
    due, dead = connection.execute(COUNTS, values).fetchall()[0]
    return min(due, COUNT_MAX), dead


def rows_read(connection: Connection) -> dict[str, int | None]:
    """Return how many rows the running jobs have read, by job."""
    return dict(connection.execute(ROWS_READ, {"most": ROWS_COUNTED_MAX}).fetchall())


def view(
    position: JobPosition, state: JobQueueState, now: datetime, *, rows: int | None = None
) -> JobView:
    """Return the view of a job."""
    answer: JobAnswer = explain_job(position, state, now)
    return JobView(
        id=position.id,
        name=position.name,
        account_id=position.account_id,
        seller=position.user_id,
        tier=position.tier,
        platform=position.platform,
        shop=position.shop,
        kind=position.kind,
        type=position.type,
        status=position.status,
        state=answer.state,
        reason=answer.sentence,
        until=answer.until,
        place=place(position, now),
        score=position.score,
        aged_score=round(aged(position, state, now), 1),
        due_at=position.next_run_at,
        started_at=position.started_at,
        completed_at=position.completed_at,
        failures=position.retry_count,
        last_error=position.last_error,
        calls_estimate=round(position.calls_estimate, 1),
        run_calls=position.run_calls,
        rows_read=rows,
        calls_total=position.queries_used,
        changed_at=position.changed_at,
    )


def _all(
    connection: Connection, statement: str, values: Values, state: JobQueueState, now: datetime
) -> list[JobView]:
    jobs = _with_quotas(connection, read_jobs(connection, statement, values), state, now)
    placed = [_placed(connection, job, state, now) for job in jobs]
    rows = rows_read(connection)
    views = [view(job, state, now, rows=rows.get(job.id)) for job in placed]
    return sorted(
        views,
        key=lambda shown: list_order(shown.status, shown.place, shown.due_at, shown.name, now),
    )


def _placed(
    connection: Connection, position: JobPosition, state: JobQueueState, now: datetime
) -> JobPosition:
    """Count the jobs that go first: of each score, those that have waited long enough."""
    if not position.is_due(now):
        return position
    values = classes(state.platforms)
    before = ahead_before(position, state, now, values["scores"])
    values |= {"before": before, "now": now, "most": AHEAD_MAX}
    values["paused"] = [pause.seller for pause in state.pauses if pause.seller is not None]
    ahead, has_more = connection.execute(AHEAD, values).fetchone() or (0, False)
    return replace(position, ahead_count=min(ahead, AHEAD_MAX), has_more=has_more)


def _with_quotas(
    connection: Connection, jobs: Sequence[JobPosition], state: JobQueueState, now: datetime
) -> list[JobPosition]:
    """Mark the jobs whose seller's orders of the month are used up."""
    values = {
        "sellers": sorted({job.user_id for job in jobs}),
        "month": now.date().replace(day=1),
        "quotas": json.dumps(state.order_quotas),
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
        "platform": platform_name(platform),
        "kind": DataKind(kind).value,
        "is_backfill": bool(more),
    }


def classes(
    platforms: Collection[PlatformName], platform: PlatformName | None = None
) -> dict[str, Any]:
    """Return each of these platforms with every score, or those of one platform."""
    chosen = platforms if platform is None else [platform]
    classes = [(name, score) for name in chosen for score in SCORES]
    return {
        "platforms": [name for name, _ in classes],
        "scores": [score for _, score in classes],
    }


def _running(rule: JobRule, platforms: Collection[PlatformName]) -> Values:
    # More than may run are shown too, in case the maximum was lowered.
    values = {"status": JobStatus.RUNNING.value, "limit": 10 * rule.running_max}
    return {**classes(platforms), **values}


def read_jobs(
    connection: Connection, statement: str, values: Values, *, order: str = "job.id"
) -> list[JobPosition]:
    """Read the jobs that a statement chooses; a join may have changed their order."""
    chosen = f"{SELECTED.format(jobs=statement)} ORDER BY {order}"
    return [_position(row) for row in connection.execute(chosen, values).fetchall()]


def _position(row: Sequence[Any]) -> JobPosition:
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
