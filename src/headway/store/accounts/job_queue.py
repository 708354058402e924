"""The queue of jobs, a page at a time: who runs next, from wherever the page before ended.

The due ones come first, best first, then those that come, soonest first. Each platform and score is
a line of its own in one index; a job that was shown last says, of each of these lines, where it
goes on. So a page costs the same however far on it is.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg import Connection

from headway.core.accounts.jobs import SCORES, PlatformName
from headway.core.accounts.reasons import JobPosition, JobQueueState
from headway.store.accounts.job_list import (
    COUNT_MAX,
    RESTING,
    JobMark,
    JobView,
    classes,
    read_jobs,
    view,
)

# Of those that rest and are due, before the next claim queues them, so many are looked at.
REST_MAX = 2000
BEFORE_ALL = datetime(1, 1, 1, tzinfo=UTC)
FIRST_ID, LAST_ID = "0" * 32, "f" * 32

LINES = """unnest(%(platforms)s::text[], %(scores)s::smallint[], %(after_at)s::timestamptz[],
  %(after_id)s::uuid[]) AS line (platform, score, after_at, after_id)"""
QUEUED = f"""
SELECT job.* FROM {LINES}
CROSS JOIN LATERAL (
  SELECT * FROM sync_jobs
  WHERE status = 'queued' AND platform = line.platform AND score = line.score
    AND (next_run_at, id) > (line.after_at, line.after_id) {{until}}
  ORDER BY next_run_at, id LIMIT %(limit)s) AS job
"""
# Who rests until due is queued by the next claim. Those that are due already stand in as many
# orders as there are scores, so all of them are looked at, up to a bound.
DUE = f"""
({QUEUED.format(until="AND next_run_at <= %(now)s")})
UNION ALL
(SELECT rest.* FROM (
   SELECT * FROM sync_jobs WHERE {RESTING} AND platform = ANY (%(platforms)s)
     AND next_run_at >= %(from_at)s AND next_run_at <= %(now)s
   ORDER BY next_run_at LIMIT %(rest)s) AS rest
 JOIN {LINES} ON line.platform = rest.platform AND line.score = rest.score
 WHERE (rest.next_run_at, rest.id) > (line.after_at, line.after_id))
"""
COMING = f"""
({QUEUED.format(until="")})
UNION ALL
(SELECT * FROM sync_jobs WHERE {RESTING} AND platform = ANY (%(platforms)s)
   AND (next_run_at, -score, id) > (%(from_at)s, %(minus)s, %(from_id)s)
 ORDER BY next_run_at, -score, id LIMIT %(limit)s)
"""
# Everybody up to the mark: a bounded count.
UP_TO = f"""
SELECT (SELECT count(*) FROM (SELECT FROM {LINES} CROSS JOIN LATERAL (
    SELECT FROM sync_jobs
    WHERE status = 'queued' AND platform = line.platform AND score = line.score
      AND (next_run_at, id) <= (line.after_at, line.after_id) AND next_run_at <= %(until)s
    LIMIT %(most)s) AS job LIMIT %(most)s) AS queued)
  + (SELECT count(*) FROM (SELECT FROM (
    SELECT * FROM sync_jobs WHERE {RESTING} AND next_run_at <= %(until)s
    ORDER BY next_run_at LIMIT %(most)s) AS rest
  JOIN {LINES} ON line.platform = rest.platform AND line.score = rest.score
  WHERE (rest.next_run_at, rest.id) <= (line.after_at, line.after_id)) AS resting)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """Up to where one line of the queue is behind a reader."""

    at: datetime
    id: str


def queue(
    connection: Connection,
    now: datetime,
    line: JobQueueState,
    *,
    platform: PlatformName | None = None,
    limit: int,
    after: JobMark | None = None,
) -> list[JobView]:
    """Return who runs next: the due ones, best first, then those that come, soonest first.

    Of very many that rest and are due, those that are due longest are looked at.
    """
    lines = classes(platform)
    views: list[JobView] = []
    if after is None or not after.is_coming(now):
        values = _values(lines, _due_bounds(after, line.ageing), now, limit)
        due = read_jobs(connection, DUE, values)
        due.sort(key=lambda each: _rank(each, line.ageing))
        ahead = 0 if after is None else up_to(connection, now, line, after, platform=platform)
        views = [
            view(replace(each, ahead_count=ahead + number), line, now)
            for number, each in enumerate(due[:limit])
        ]
    if len(views) < limit:
        coming = read_jobs(connection, COMING, _coming_values(lines, after, now, limit))
        coming.sort(key=lambda each: (each.next_run_at or now, -each.score, each.id))
        views += [view(each, line, now) for each in coming[: limit - len(views)]]
    return views


def up_to(
    connection: Connection,
    now: datetime,
    line: JobQueueState,
    mark: JobMark,
    *,
    platform: PlatformName | None = None,
) -> int:
    """Count who is in the queue up to a job, itself included; up to a bound."""
    is_coming = mark.is_coming(now)
    bounds = _coming_bounds(mark) if is_coming else _due_bounds(mark, line.ageing)
    values = _values(classes(platform), bounds, now, 0)
    row = connection.execute(
        UP_TO, {**values, "until": mark.due_at if is_coming else now, "most": COUNT_MAX}
    ).fetchone()
    assert row is not None, "a count always answers"
    return min(int(row[0]), COUNT_MAX)


def _rank(each: JobPosition, ageing: timedelta) -> tuple[datetime, datetime, str]:
    """Return the order of the due: a point of score counts as one span of waiting."""
    at = each.next_run_at
    assert at is not None, "who waits has a time"
    return at - each.score * ageing, at, each.id


def _due_bounds(after: JobMark | None, ageing: timedelta) -> dict[int, _Bound]:
    """Return where each score goes on among the due: as long waited for as the mark, or less.

    Of two with the same rank the one that is due longer goes first: that of the lower score.
    """
    if after is None or after.due_at is None:
        return _all_at(BEFORE_ALL, FIRST_ID)
    return {
        score: _Bound(
            at=after.due_at + (score - after.score) * ageing,
            id=after.id if score == after.score else FIRST_ID if score > after.score else LAST_ID,
        )
        for score in SCORES
    }


def _coming_bounds(after: JobMark) -> dict[int, _Bound]:
    """Return where each score goes on among those that come; of two at once the higher first."""
    assert after.due_at is not None, "who comes has a time"
    return {
        score: _Bound(
            at=after.due_at,
            id=after.id if score == after.score else FIRST_ID if score < after.score else LAST_ID,
        )
        for score in SCORES
    }


def _all_at(at: datetime, id_: str) -> dict[int, _Bound]:
    return dict.fromkeys(SCORES, _Bound(at=at, id=id_))


def _coming_values(
    lines: dict[str, Any], after: JobMark | None, now: datetime, limit: int
) -> dict[str, Any]:
    """Return where those that come go on: after the mark, or with the first that is not due."""
    if after is None or not after.is_coming(now):
        bounds, minus, id_ = _all_at(now, LAST_ID), 0, LAST_ID
    else:
        bounds, minus, id_ = _coming_bounds(after), -after.score, after.id
    return {**_values(lines, bounds, now, limit), "minus": minus, "from_id": id_}


def _values(
    lines: dict[str, Any], bounds: dict[int, _Bound], now: datetime, limit: int
) -> dict[str, Any]:
    found = [bounds[score] for score in lines["scores"]]
    return {
        **lines,
        "after_at": [each.at for each in found],
        "after_id": [each.id for each in found],
        "from_at": min(each.at for each in found),
        "now": now,
        "limit": limit,
        "rest": max(REST_MAX, limit),
    }
