"""The timetable of a day: what is due by the hour, the calls that takes, those that were made."""

import itertools
from datetime import UTC, datetime, timedelta

from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import LimitKey
from headway.core.timetable.policies import by_name
from headway.store.timetable.hours import TimetableQueries

NOW = datetime(2026, 1, 5, 12, 20, tzinfo=UTC)
START = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
LIMIT_KEY = LimitKey("boeing:test")
ENTER = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at, is_active)
VALUES ('acme', %s, %s, %s, %s)
"""
CALL = """
INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until, status,
  http_status,
  seats_paid, skus) VALUES (gen_random_uuid(), %s, 'w', 1, %s, %s, %s, %s, 10, %s)
"""


def enter(pool: ConnectionPool, *due: timedelta, is_active: bool = True) -> None:
    with pool.connection() as connection:
        for number, after in enumerate(due):
            at = NOW + after
            connection.execute(ENTER, (f"{after}{number}", at.hour, at, is_active))


def test_due_listings_join_call_in_full_calls_by_the_hour(pool: ConnectionPool) -> None:
    enter(pool, -2 * HOUR, -MINUTE, 30 * MINUTE, 41 * MINUTE, 2 * HOUR, 25 * HOUR)
    enter(pool, HOUR, is_active=False)
    views = TimetableQueries(pool, seats=2, calls_per_hour=120)
    day = views.day(NOW, limit_key=LIMIT_KEY, policy=by_name("rolling"), listed=6)
    assert [(hour.at, hour.due, hour.calls) for hour in day.planned[:3]] == [
        (START, 3, 2),
        (START + HOUR, 1, 1),
        (START + 2 * HOUR, 1, 1),
    ]
    assert len(day.planned) == len(day.made) == len(day.slots) == 24
    assert (day.slots[12], day.slots[13], day.slots[14]) == (2, 2, 1)
    assert (day.backlog, day.is_estimate) == (0, False)


def test_what_the_limit_does_not_allow_waits_for_later_hours(pool: ConnectionPool) -> None:
    enter(pool, *[MINUTE] * 7)
    views = TimetableQueries(pool, seats=1, calls_per_hour=2)
    day = views.day(NOW, limit_key=LIMIT_KEY, policy=by_name("rolling"), listed=7)
    assert [hour.calls for hour in day.planned[:5]] == [2, 2, 2, 1, 0]
    slower = TimetableQueries(pool, seats=1, calls_per_hour=0.2)
    assert slower.day(NOW, limit_key=LIMIT_KEY, policy=by_name("rolling"), listed=7).backlog == 7


def test_an_eager_policy_spends_every_permit_and_has_no_slots(pool: ConnectionPool) -> None:
    views = TimetableQueries(pool, seats=10, calls_per_hour=120)
    day = views.day(NOW, limit_key=LIMIT_KEY, policy=by_name("adaptive"), listed=0)
    assert {hour.calls for hour in day.planned} == {120}
    assert (day.slots, day.windows) == ((), ())


def test_calls_made_are_counted_by_the_hour_of_the_clock(pool: ConnectionPool) -> None:
    with pool.connection() as connection:
        for before, status, code in (
            (MINUTE, "sent", 200),
            (19 * MINUTE, "sent", 500),
            (21 * MINUTE, "sent", 200),
            (22 * MINUTE, "unsent", None),
            (24 * HOUR, "sent", 200),
        ):
            at = NOW - before
            connection.execute(CALL, (LIMIT_KEY, at, at, status, code, ["a", "b"]))
    views = TimetableQueries(pool, seats=10, calls_per_hour=120)
    day = views.day(NOW, limit_key=LIMIT_KEY, policy=by_name("rolling"), listed=0)
    last, before = day.made[-1], day.made[-2]
    assert (last.at, last.calls, last.good, last.seats) == (START, 2, 1, 4)
    assert (before.calls, before.good) == (1, 1)
    assert sum(hour.calls for hour in day.made) == 3


def test_the_windows_of_a_day_follow_each_other(pool: ConnectionPool) -> None:
    views = TimetableQueries(pool, seats=10, calls_per_hour=120)
    windows = views.day(NOW, limit_key=LIMIT_KEY, policy=by_name("split"), listed=1000).windows
    assert windows[0].opens_at <= NOW < windows[0].closes_at
    assert windows[-1].closes_at >= NOW + 24 * HOUR
    assert all(one.closes_at == next_.opens_at for one, next_ in itertools.pairwise(windows))
