"""Status: what is in the next call and why not sooner, and exact counts at any size."""

from datetime import datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import LimitKey, Priority
from headway.core.limits.breaker import Breaker
from headway.core.limits.transitions import Bucket, Permit, Resource, Window
from headway.core.timetable.next_call import NextCallReason, SupplierQueue
from headway.core.timetable.seats import FRONT_PER_SEAT, SeatRule
from headway.store.accounts.status import AccountsStatus
from headway.store.limits.breakers import Breakers
from headway.store.limits.limiter import PostgresLimiter
from headway.store.pool import Pool
from headway.store.status import Overview, PermitStatus, overview
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

LIMIT_KEY = LimitKey("boeing:test")
RULE = SeatRule(seats=3, slack=timedelta(minutes=20))
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

LISTING = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at, priority,
  last_successful_sync, consecutive_failures, is_active, sync_status, last_error)
VALUES ('acme', %s, 0, %s, %s, %s, %s, %s, %s, 'why')
"""
CALL = """
INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until, finished_at,
  arrived_by, status, result, http_status, seats_paid, skus)
VALUES (gen_random_uuid(), %s, 'w', 1, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
MANY = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at, last_successful_sync)
SELECT 'acme', 'P' || n, 0, %(now)s::timestamptz + n * interval '1 second',
  CASE WHEN n %% 4 = 0 THEN %(now)s::timestamptz - interval '30 hours'
       ELSE %(now)s::timestamptz - interval '90 minutes' END
FROM generate_series(1, 60000) AS n
"""


def run(pool: ConnectionPool, statement: str, *values: object) -> None:
    with pool.connection() as connection:
        connection.execute(statement, values)


def add(
    pool: ConnectionPool,
    sku: str,
    due_at: datetime,
    *,
    priority: str = "scheduled",
    read_at: datetime | None = None,
    failures: int = 0,
    is_parked: bool = False,
) -> None:
    status = "parked" if is_parked else "pending"
    run(pool, LISTING, sku, due_at, priority, read_at, failures, not is_parked, status)


def look(pool: ConnectionPool, now: datetime, gate: PermitStatus | None = None) -> Overview:
    gate = gate or PermitStatus(free_at=now)

    def queue(lent: Pool) -> SupplierQueue:
        return SupplierQueue(
            rule=RULE,
            breaker=Breakers(lent).load(LIMIT_KEY),
            permit_at=gate.free_at,
            pace=HOUR,
            paused_until=gate.paused_until,
            pause_reason=gate.pause_reason,
            front=Schedule(lent).front(now, limit=RULE.seats * FRONT_PER_SEAT),
        )

    return overview(
        pool,
        now,
        limit_key=LIMIT_KEY,
        queue=queue,
        slack=RULE.slack,
        minute_limit=2,
        resource_of=lambda shop: Resource(key=shop, rules=(Bucket(capacity=9, rate_per_s=1),)),
        accounts=lambda _pool: AccountsStatus(),
        currency="USD",
    )


def test_with_nothing_listed_no_call_leaves(pool: ConnectionPool, clock: VirtualClock) -> None:
    status = look(pool, clock.now())
    assert (status.next_call.leaves_at, status.next_call.why) == (None, NextCallReason.NOTHING)
    assert status.counts.fresh_share is None
    assert status.spent.fill is None


def test_a_call_leaves_when_its_last_seat_comes_due(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    now = clock.now()
    for minutes in (-5, 2, 7, 30):
        add(pool, f"P{minutes}", now + minutes * MINUTE)
    coming = look(pool, now).next_call
    assert (coming.leaves_at, coming.why) == (now + 7 * MINUTE, NextCallReason.SEATS)
    assert [seat.sku for seat in coming.seats] == ["P-5", "P2", "P7"]
    assert {seat.priority for seat in coming.seats} == {Priority.SCHEDULED}


def test_spare_seats_are_borrowed_when_the_slack_is_used_up(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    now = clock.now()
    for minutes in (-5, 60, 70):
        add(pool, f"P{minutes}", now + minutes * MINUTE)
    coming = look(pool, now).next_call
    assert (coming.leaves_at, coming.why) == (now + 15 * MINUTE, NextCallReason.SLACK)
    assert [seat.priority for seat in coming.seats] == [
        Priority.SCHEDULED,
        Priority.AHEAD,
        Priority.AHEAD,
    ]


def test_an_urgent_listing_waits_only_for_the_permit(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    now = clock.now()
    add(pool, "URGENT", now + HOUR, priority="manual")
    assert look(pool, now).next_call.why is NextCallReason.NOW
    later = PermitStatus(free_at=now + 10 * MINUTE)
    coming = look(pool, now, later).next_call
    assert (coming.leaves_at, coming.why) == (now + 10 * MINUTE, NextCallReason.PERMIT)


def test_a_pause_and_a_breaker_are_reasons_while_they_last(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    now = clock.now()
    add(pool, "URGENT", now, priority="manual")
    paused = PermitStatus(
        free_at=now + MINUTE, paused_until=now + MINUTE, pause_reason="rate limited"
    )
    assert look(pool, now, paused).next_call.why is NextCallReason.RATE_LIMITED
    Breakers(pool).save(
        LIMIT_KEY, Breaker(failures=3, trips=1, open_until=now + HOUR, reason="503")
    )
    coming = look(pool, now, paused).next_call
    assert (coming.leaves_at, coming.why) == (now + HOUR, NextCallReason.BREAKER)


def test_the_permit_that_the_waiting_call_was_promised_is_the_one_shown(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    now = clock.now()
    add(pool, "URGENT", now, priority="manual")
    window = Window(limit=2, span_s=60, gap_s=30)
    limiter = PostgresLimiter(pool, clock, [Resource(key=LIMIT_KEY, rules=(window,))])
    permit = limiter.reserve([LIMIT_KEY], owner="w", max_wait_s=120, lease_s=90, grace_s=30)
    assert isinstance(permit, Permit)
    status = limiter.status(LIMIT_KEY)
    assert status.next_free_at > permit.start_at, "the one after it"
    assert status.promised_at == permit.start_at
    gate = PermitStatus(free_at=status.promised_at)
    assert look(pool, now, gate).next_call.leaves_at == permit.start_at


def test_counts_add_up_and_say_who_needs_attention(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    now = clock.now()
    add(pool, "FRESH", now + HOUR, read_at=now - HOUR)
    add(pool, "EDGE", now, read_at=now - timedelta(hours=24))
    add(pool, "LATE", now - HOUR, read_at=now - timedelta(hours=25))
    add(pool, "NEW", now + HOUR)
    add(pool, "FAILS", now + HOUR, read_at=now - timedelta(hours=40), failures=2, priority="retry")
    add(pool, "PARKED", now - HOUR, failures=5, is_parked=True)
    add(pool, "BLOCKED", now - HOUR)
    run(pool, "UPDATE product_sync_schedule SET is_active = false WHERE sku = 'BLOCKED'")
    status = look(pool, now)
    counts = status.counts
    assert (counts.fresh, counts.stale, counts.unread, counts.parked) == (1, 3, 1, 1)
    assert counts.total == counts.fresh + counts.stale + counts.unread + counts.parked
    assert (counts.failing, counts.overdue) == (1, 1)
    assert (status.ages_h[1], status.ages_h[24]) == (1, 3)
    assert status.oldest_read_at == now - timedelta(hours=25), "failing parts are shown elsewhere"
    assert [job.sku for job in status.trouble] == ["PARKED", "FAILS"]


def test_the_ledger_gives_budget_and_fill(pool: ConnectionPool, clock: VirtualClock) -> None:
    now = clock.now()

    def call(age: timedelta, status: str, result: str | None, skus: list[str] | None) -> None:
        at, done = now - age, now - age + timedelta(seconds=2)
        http_status = {"sent": 200 if result == "ok" else 500}.get(status)
        paid = 10 if skus else None
        ended = done if status != "begun" else None
        run(
            pool, CALL, LIMIT_KEY, at, at + HOUR, ended, ended, status, result, http_status,
            paid, skus
        )  # fmt: skip

    call(timedelta(hours=30), "sent", "ok", ["OLD"])
    call(timedelta(hours=2), "sent", "ok", [f"P{n}" for n in range(10)])
    call(timedelta(minutes=90), "sent", "boeing answered 500", [f"P{n}" for n in range(5)])
    call(timedelta(seconds=50), "unsent", None, None)
    call(timedelta(seconds=20), "begun", None, None)
    overview = look(pool, now)
    assert (overview.spent.minute_count, overview.spent.day_count, overview.spent.day_limit) == (
        1,
        3,
        2880,
    )
    assert overview.spent.fill == pytest.approx(0.75)
    assert (
        overview.calls_per_hour[-1],
        overview.calls_per_hour[-2],
        overview.calls_per_hour[-3],
    ) == (1, 1, 1)
    assert [call.is_over for call in overview.calls] == [False, True, True, True, True]
    assert [call.is_good for call in overview.calls] == [False, False, False, True, True]
    assert overview.calls[-1].duration_s == 2


def test_a_large_table_is_sampled_and_says_so(pool: ConnectionPool, clock: VirtualClock) -> None:
    now = clock.now()
    with pool.connection() as connection:
        connection.execute(MANY, {"now": now})
        connection.execute("ANALYZE product_sync_schedule")
    counts = look(pool, now).counts
    assert counts.is_estimate
    assert counts.total == pytest.approx(60_000, rel=0.02)
    assert counts.stale == pytest.approx(15_000, rel=0.2)
    assert counts.fresh + counts.stale == pytest.approx(counts.total, rel=0.02)
