"""The queue page by page: every job once, in one order, at a cost that does not grow."""

from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.lane import Lane
from tests.store.accounts.test_status import MANY

from headway.core.accounts.job_order import due_starts
from headway.core.accounts.jobs import JobStatus
from headway.errors import InvalidError
from headway.store import cursors
from headway.store.accounts.account_queries import AccountQueries
from headway.store.accounts.job_list import JobView, mark_of
from headway.store.accounts.job_queue import (
    COMING,
    DUE,
    _coming_values,
    _values,
    classes,
)
from headway.store.limits.day_demand import DayDemand
from headway_lab.platforms import PLATFORMS
from headway_lab.virtual_clock import VirtualClock

MINUTE = timedelta(minutes=1)
# Some due, some to come, some that rest; by five minutes, which is what a point of score is worth.
SPREAD = """
UPDATE sync_jobs SET next_run_at = %s + (hashtext(id::text) %% 7) * interval '5 minutes',
  status = CASE WHEN hashtext(id::text) %% 3 = 0 AND NOT is_backfill THEN 'completed'
    ELSE 'queued' END
"""


@pytest.fixture
def lane(pool: ConnectionPool, clock: VirtualClock) -> Lane:
    return Lane(pool, clock)


@pytest.fixture
def views(lane: Lane) -> AccountQueries:
    return AccountQueries(
        lane.pool, lane.rule, lane.days, DayDemand(lane.pool, lane.rule), platforms=PLATFORMS
    )


def walk(views: AccountQueries, lane: Lane, size: int, **filters: JobStatus) -> list[JobView]:
    """Read a list page by page to its end."""
    jobs: list[JobView] = []
    while page := views.jobs(
        lane.now, limit=size, cursor=jobs[-1].cursor if jobs else None, **filters
    ):
        jobs += page
    return jobs


@pytest.mark.parametrize("size", (1, 4, 7))
def test_pages_of_the_queue_are_the_queue(lane: Lane, views: AccountQueries, size: int) -> None:
    lane.connect()
    lane.ask(SPREAD, lane.now)
    whole = views.jobs(lane.now, limit=500)
    paged = walk(views, lane, size)
    assert [job.id for job in paged] == [job.id for job in whole]
    assert [job.place for job in paged] == [job.place for job in whole]
    assert len({job.id for job in whole}) == len(whole) > 3 * 7
    assert {job.place is None for job in whole} == {True, False}


def test_a_place_counts_everybody_who_goes_first_due_or_not(
    lane: Lane, views: AccountQueries
) -> None:
    lane.connect()
    lane.ask(SPREAD, lane.now)
    whole = views.jobs(lane.now, limit=500)
    assert views.places(lane.now, whole) == list(range(1, len(whole) + 1))


@pytest.mark.parametrize("status", ("dead", "completed", "queued"))
def test_pages_of_those_that_stand_alike_are_all_of_them(
    lane: Lane, views: AccountQueries, status: str
) -> None:
    lane.connect()
    lane.ask(
        "UPDATE sync_jobs SET status = %s, updated_at = %s - (hashtext(id::text) %% 3) * interval"
        " '1 hour', next_run_at = CASE WHEN %s = 'dead' OR (%s = 'completed' AND is_backfill)"
        " THEN NULL ELSE next_run_at END",
        status,
        lane.now,
        status,
        status,
    )
    whole = views.jobs(lane.now, status=JobStatus(status), limit=500)
    paged = walk(views, lane, 4, status=JobStatus(status))
    assert [job.id for job in paged] == [job.id for job in whole]
    assert len(whole) > 4


def test_pages_of_accounts_begin_with_the_lost_and_are_all_of_them(
    lane: Lane, views: AccountQueries
) -> None:
    lane.connect()
    lane.ask(
        "UPDATE connected_accounts SET status = 'disconnected', reason = 'gone'"
        " WHERE platform = 'etsy'"
    )
    whole = views.accounts(limit=100)
    accounts = list(views.accounts(limit=2))
    while page := views.accounts(limit=2, cursor=accounts[-1].cursor):
        accounts += page
    assert [job.id for job in accounts] == [job.id for job in whole]
    assert [job.is_connected for job in whole[:3]] == [False] * 3


@pytest.mark.parametrize(
    "cursor",
    (
        "nonsense",
        cursors.encode("account", 1, "acme", "etsy"),
        cursors.encode("job", 10**9, None, None, None, "0" * 32),
        cursors.encode("job", 12, None, None, None, "no id"),
    ),
)
def test_a_cursor_of_another_list_is_refused(
    lane: Lane, views: AccountQueries, cursor: str
) -> None:
    with pytest.raises(InvalidError):
        views.jobs(lane.now, limit=5, cursor=cursor)


def test_a_page_far_on_is_read_from_the_index(lane: Lane, views: AccountQueries) -> None:
    with lane.pool.connection() as connection:
        connection.execute(MANY)  # type: ignore[arg-type]
    page = views.jobs(lane.now, limit=20)
    far = cursors.encode("job", 12, lane.now - 365 * 24 * 60 * MINUTE, None, None, page[-1].id)
    mark, lines = mark_of(far), classes(PLATFORMS)
    statements = (
        (DUE, _values(lines, due_starts(mark, lane.rule.ageing), lane.now, 20)),
        (COMING, _coming_values(lines, mark, lane.now, 20)),
    )
    with lane.pool.connection() as connection:
        for statement, values in statements:
            plan = connection.execute(f"EXPLAIN {statement}", values).fetchall()
            text = "\n".join(row[0] for row in plan)
            assert "sync_jobs_claim" in text
            assert "Seq Scan" not in text
