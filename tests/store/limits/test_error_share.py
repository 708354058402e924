"""Error replies are counted from the ledger of calls, by scope and time."""

from datetime import datetime, timedelta

from psycopg_pool import ConnectionPool

from headway.core.limits.transitions import Bucket, CallReport, Granted, Permit, Resource
from headway.store.limits.error_share import ErrorShare
from headway.store.limits.limiter import PostgresLimiter
from headway_lab.virtual_clock import VirtualClock

RULES = (Bucket(capacity=60, rate_per_s=9),)
KEYS = ("printify:1", "printify:2")


def call(limiter: PostgresLimiter, key: str, status: int | None, *, sent: bool = True) -> None:
    permit = limiter.reserve([key], owner="w", max_wait_s=0, lease_s=60, grace_s=10, begins=True)
    assert isinstance(permit, Permit)
    assert isinstance(permit.granted, Granted)
    limiter.settle(permit, sent=sent, report=CallReport(result="", http_status=status))


def test_a_scope_must_keep_still_while_the_day_holds_too_many_errors(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    limiter = PostgresLimiter(pool, clock, [Resource(key=KEYS[0], rules=RULES)])
    limiter.pause(KEYS[0], 0, "")
    clock.sleep(1000)
    shares = ErrorShare(pool)
    for number in range(50):
        call(limiter, KEYS[0], 500 if number < 5 else 200)
    assert shares.pause_for(KEYS[0], now=clock.now()) == 3600
    assert shares.pause_for("printify:9", now=clock.now()) is None
    clock.sleep(86_400)
    assert shares.pause_for(KEYS[0], now=clock.now()) is None


def test_replies_of_a_scope_are_counted_since_an_instant(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    limiter = PostgresLimiter(pool, clock, [Resource(key=key, rules=RULES) for key in KEYS])
    shares = ErrorShare(pool)
    for key in KEYS:
        limiter.pause(key, 0, "")
    clock.sleep(1000)

    def count(key: str = KEYS[0], since: datetime = clock.now()) -> tuple[int, int]:  # noqa: B008
        return shares.count(key, since=since - timedelta(seconds=1))

    assert count() == (0, 0)
    for status in (200, 200, 404, 429, 500, None):
        call(limiter, KEYS[0], status)
    call(limiter, KEYS[0], None, sent=False)
    call(limiter, KEYS[1], 400)
    assert count() == (3, 5)
    assert count(KEYS[1]) == (1, 1)
    clock.sleep(3600)
    call(limiter, KEYS[0], 200)
    assert count() == (3, 6)
    assert count(since=clock.now()) == (0, 1)
