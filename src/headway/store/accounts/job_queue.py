"""The queue of jobs, a page at a time: which run next, from where the last page ended.

Due jobs come first, best first, then coming ones, soonest first. Each platform and score is a queue
of its own in one index; the last job of a page determines where each of these queues continues. So
every page costs the same.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from psycopg import Connection

from headway.core.accounts.job_order import (
    LAST_ID,
    JobMark,
    QueueStart,
    coming_order,
    coming_starts,
    due_order,
    due_starts,
    from_start,
)
from headway.core.accounts.jobs import PlatformName
from headway.core.accounts.reasons import JobQueueState
from headway.store.accounts.job_list import (
    COUNT_MAX,
    RESTING,
    JobView,
    classes,
    read_jobs,
    view,
)

# How many due jobs that the next claim will queue are read.
REST_MAX = 2000

QUEUES = """unnest(%(platforms)s::text[], %(scores)s::smallint[], %(after_at)s::timestamptz[],
  %(after_id)s::uuid[]) AS queue (platform, score, after_at, after_id)"""
QUEUED = f"""
SELECT job.* FROM {QUEUES}
CROSS JOIN LATERAL (
  SELECT * FROM sync_jobs
  WHERE status = 'queued' AND platform = queue.platform AND score = queue.score
    AND (next_run_at, id) > (queue.after_at, queue.after_id) {{until}}
  ORDER BY next_run_at, id LIMIT %(limit)s) AS job
"""
# Jobs that became due are queued by the next claim. Until then each score has an order of its own,
# so all of them are read, up to a bound.
DUE = f"""
({QUEUED.format(until="AND next_run_at <= %(now)s")})
UNION ALL
(SELECT rest.* FROM (
   SELECT * FROM sync_jobs WHERE {RESTING} AND platform = ANY (%(platforms)s)
     AND next_run_at >= %(from_at)s AND next_run_at <= %(now)s
   ORDER BY next_run_at LIMIT %(rest)s) AS rest
 JOIN {QUEUES} ON queue.platform = rest.platform AND queue.score = rest.score
 WHERE (rest.next_run_at, rest.id) > (queue.after_at, queue.after_id))
"""
COMING = f"""
({QUEUED.format(until="")})
UNION ALL
(SELECT * FROM sync_jobs WHERE {RESTING} AND platform = ANY (%(platforms)s)
   AND (next_run_at, -score, id) > (%(from_at)s, %(minus)s, %(from_id)s)
 ORDER BY next_run_at, -score, id LIMIT %(limit)s)
"""
# All jobs up to the mark: a bounded count.
UP_TO = f"""
SELECT (SELECT count(*) FROM (SELECT FROM {QUEUES} CROSS JOIN LATERAL (
    SELECT FROM sync_jobs
    WHERE status = 'queued' AND platform = queue.platform AND score = queue.score
      AND (next_run_at, id) <= (queue.after_at, queue.after_id) AND next_run_at <= %(until)s
    LIMIT %(most)s) AS job LIMIT %(most)s) AS queued)
  + (SELECT count(*) FROM (SELECT FROM (
    SELECT * FROM sync_jobs WHERE {RESTING} AND next_run_at <= %(until)s
    ORDER BY next_run_at LIMIT %(most)s) AS rest
  JOIN {QUEUES} ON queue.platform = rest.platform AND queue.score = rest.score
  WHERE (rest.next_run_at, rest.id) <= (queue.after_at, queue.after_id)) AS resting)
"""


def queue(
    connection: Connection,
    now: datetime,
    state: JobQueueState,
    *,
    platform: PlatformName | None = None,
    limit: int,
    after: JobMark | None = None,
) -> list[JobView]:
    """Return the next jobs: due ones, best first, then coming ones, soonest first.

    If very many are due, only those that have been due longest are read.
    """
    queues = classes(state.platforms, platform)
    views: list[JobView] = []
    if after is None or not after.is_coming(now):
        values = _values(queues, due_starts(after, state.ageing), now, limit)
        due = read_jobs(connection, DUE, values)
        due.sort(key=lambda job: due_order(job, state.ageing))
        ahead = 0 if after is None else up_to(connection, now, state, after, platform=platform)
        views = [
            view(replace(position, ahead_count=ahead + number), state, now)
            for number, position in enumerate(due[:limit])
        ]
    if len(views) < limit:
        coming = read_jobs(connection, COMING, _coming_values(queues, after, now, limit))
        coming.sort(key=lambda job: coming_order(job, now))
        views += [view(job, state, now) for job in coming[: limit - len(views)]]
    return views


def up_to(
    connection: Connection,
    now: datetime,
    state: JobQueueState,
    mark: JobMark,
    *,
    platform: PlatformName | None = None,
) -> int:
    """Count the jobs in the queue up to and including one; up to a bound."""
    is_coming = mark.is_coming(now)
    bounds = coming_starts(mark) if is_coming else due_starts(mark, state.ageing)
    values = _values(classes(state.platforms, platform), bounds, now, 0)
    row = connection.execute(
        UP_TO, {**values, "until": mark.due_at if is_coming else now, "most": COUNT_MAX}
    ).fetchone()
    assert row is not None, "a count always answers"
    return min(int(row[0]), COUNT_MAX)


def _coming_values(
    queues: dict[str, Any], after: JobMark | None, now: datetime, limit: int
) -> dict[str, Any]:
    """Return where the coming jobs go on: after the mark, or with the first that is not due."""
    if after is None or not after.is_coming(now):
        bounds, minus, id_ = from_start(now, LAST_ID), 0, LAST_ID
    else:
        bounds, minus, id_ = coming_starts(after), -after.score, after.id
    return {**_values(queues, bounds, now, limit), "minus": minus, "from_id": id_}


def _values(
    queues: dict[str, Any], bounds: dict[int, QueueStart], now: datetime, limit: int
) -> dict[str, Any]:
    starts = [bounds[score] for score in queues["scores"]]
    return {
        **queues,
        "after_at": [start.at for start in starts],
        "after_id": [start.id for start in starts],
        "from_at": min(start.at for start in starts),
        "now": now,
        "limit": limit,
        "rest": max(REST_MAX, limit),
    }
