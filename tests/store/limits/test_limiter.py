"""The limiter in PostgreSQL: what the store adds to the pure transitions."""

import itertools
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock, fresh_id, rng
from headway.core.laws import replay_windows
from headway.core.limits.transitions import (
    Bucket,
    CallReport,
    Granted,
    LimitStep,
    NotYet,
    Observation,
    Permit,
    Quota,
    Resource,
    States,
    Window,
    pause,
)
from headway.errors import StoreError
from headway.store.limits.limiter import PostgresLimiter
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.virtual_clock import VirtualClock

BOEING = Resource(key="boeing", rules=(Window(limit=2, span_s=60, gap_s=30, jitter_s=2.5),))
numbers = itertools.count()


class SkewedClock(SystemClock):
    """The clock of a host that is wrong about the time."""

    def __init__(self, skew_s: float) -> None:
        self.skew_s = skew_s

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.skew_s)


@pytest.fixture
def limiter(pool: ConnectionPool, clock: VirtualClock) -> PostgresLimiter:
    """Return a limiter whose past is known: the first pause is over."""
    limiter = PostgresLimiter(pool, clock, [BOEING])
    limiter.pause("boeing", 0, "")
    clock.sleep(1000)
    return limiter


def ask(limiter: PostgresLimiter, **wishes: float) -> Permit:
    defaults = {"max_wait_s": 1e6, "lease_s": 60, "grace_s": 10}
    permit = limiter.reserve(["boeing"], owner="w1", purpose="quote", **(defaults | wishes))
    assert isinstance(permit, Permit)
    return permit


def begin_call(limiter: PostgresLimiter, clock: VirtualClock, **wishes: float) -> Permit:
    permit = ask(limiter, **wishes)
    clock.sleep(permit.wait_s)
    assert isinstance(limiter.begin(permit), Granted)
    return permit


def ledger(pool: ConnectionPool) -> Iterator[tuple[object, ...]]:
    with pool.connection() as conn:
        yield from conn.execute(
            "SELECT status, owner, purpose, cost, begun_at, lease_until, finished_at, arrived_by,"
            " result, http_status, seats_paid, skus FROM call_ledger ORDER BY begun_at"
        )


def test_the_ledger_stores_the_result_of_every_call(
    limiter: PostgresLimiter, pool: ConnectionPool, clock: VirtualClock
) -> None:
    begun = [clock.now()]
    permit = begin_call(limiter, clock)
    clock.sleep(2)
    report = CallReport(result="ok", http_status=200, seats_paid=10, skus=["A", "B"])
    limiter.settle(permit, sent=True, report=report)
    permit = begin_call(limiter, clock)
    begun.append(clock.now())
    limiter.settle(permit, sent=False)
    begin_call(limiter, clock, lease_s=20)
    begun.append(clock.now())
    clock.sleep(90)
    permit = begin_call(limiter, clock)
    begun.append(clock.now())
    limiter.settle(permit, sent=True, is_late=True)

    first, second, third, fourth = ledger(pool)
    lease = timedelta(seconds=60)
    done = begun[0] + timedelta(seconds=2)
    assert first[:6] == ("sent", "w1", "quote", 1.0, begun[0], begun[0] + lease)
    assert first[6:] == (done, done, "ok", 200, 10, ["A", "B"])
    assert second[0] == "unsent"
    assert second[6:8] == (begun[1], None)
    assert third[0] == "lost"
    assert third[6:8] == (None, begun[2] + timedelta(seconds=20))
    assert fourth[0] == "sent"
    assert fourth[6:8] == (begun[3], begun[3] + timedelta(seconds=2.5))


def test_the_ledger_proves_that_no_window_was_exceeded(
    limiter: PostgresLimiter, clock: VirtualClock
) -> None:
    for _ in range(5):
        permit = begin_call(limiter, clock)
        clock.sleep(3)
        limiter.settle(permit, sent=True)
    calls = limiter.calls_since("boeing", datetime(2026, 1, 1, tzinfo=UTC))
    assert len(calls) == 5
    assert not replay_windows(calls, Window(limit=2, span_s=60))
    assert len(replay_windows(calls, Window(limit=2, span_s=67))) == 3


def test_another_process_sees_the_same_queue(
    limiter: PostgresLimiter, pool: ConnectionPool, clock: VirtualClock
) -> None:
    first = ask(limiter)
    other = PostgresLimiter(pool, clock, [BOEING])
    second = ask(other)
    assert second.position == 1
    assert isinstance(other.begin(second), NotYet)
    assert isinstance(other.begin(first), Granted)


def test_a_store_with_another_past_is_distrusted_for_one_window(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    shop = Resource(key="shop", rules=(*BOEING.rules, Bucket(capacity=40, rate_per_s=2)))
    limiter = PostgresLimiter(pool, clock, [shop])
    limiter.pause("shop", 0, "")
    clock.sleep(1000)
    assert limiter.status("shop").paused_until is None
    with pool.connection() as conn:
        conn.execute("UPDATE limiter SET lineage = 'restored from elsewhere'")
    limiter.pause("shop", 0, "")
    status = limiter.status("shop")
    assert status.paused_until == clock.now() + timedelta(seconds=62.500001)
    assert (status.reason, status.gauges[1].used) == ("history unknown", 40)
    clock.sleep(1000)
    limiter.pause("shop", 0, "")
    assert limiter.status("shop").paused_until is None, "once is enough"


def test_new_rules_replace_the_old_ones_and_what_was_learned_stays(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    old = Resource(key="shop", rules=(Bucket(capacity=40, rate_per_s=2),))
    PostgresLimiter(pool, clock, [old]).observe("shop", Observation(used=3, capacity=80))
    new = Resource(
        key="shop", rules=(Bucket(capacity=50, rate_per_s=4), Quota(limit=9, span_s=3600))
    )
    limiter = PostgresLimiter(pool, clock, [new])
    limiter.pause("shop", 0, "")
    assert [gauge.limit for gauge in limiter.status("shop").gauges] == [80, 9]
    with pool.connection() as conn:
        rules = conn.execute("SELECT rules FROM limiter").fetchone()
    assert rules is not None
    assert [(rule["kind"], rule.get("capacity")) for rule in rules[0]] == [
        ("bucket", 50),
        ("quota", None),
    ]


def test_many_threads_at_one_key_lose_no_update(pool: ConnectionPool) -> None:
    limiters = [PostgresLimiter(pool, SystemClock(), [BOEING]) for _ in range(6)]
    positions: list[int] = []

    def crowd(limiter: PostgresLimiter) -> None:
        positions.extend(ask(limiter, grace_s=1e6).position for _ in range(10))

    threads = [threading.Thread(target=crowd, args=[limiter]) for limiter in limiters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(positions) == list(range(60))


def test_a_transaction_that_lost_a_race_decides_again_on_what_the_other_wrote(
    limiter: PostgresLimiter, pool: ConnectionPool, clock: VirtualClock
) -> None:
    other = PostgresLimiter(pool, clock, [BOEING])
    other.pause("boeing", 0, "")
    queued: list[int] = []

    def overtaken(states: States, now_us: int) -> LimitStep[None]:
        queued.append(len(states["boeing"].waiting))
        if len(queued) == 1:
            ask(other, grace_s=1000)
        until_us = now_us + 5_000_000
        return pause(states["boeing"], "boeing", until_us=until_us, reason="slow")

    limiter.run(("boeing",), overtaken)
    status = limiter.status("boeing")
    assert queued == [0, 1]
    assert (status.queue, status.reason) == ({0: 1}, "slow")


def test_the_clock_is_read_after_the_lock(pool: ConnectionPool) -> None:
    limiter = PostgresLimiter(pool, SystemClock(), [BOEING])
    limiter.pause("boeing", 0, "")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    thread = threading.Thread(target=limiter.pause, args=("boeing", 500, "test"))
    with pool.connection() as holder, pool.connection() as watcher:
        with holder.transaction():
            holder.execute("SELECT FROM limiter FOR UPDATE")
            thread.start()
            while watcher.execute(waiting).fetchone() == (0,):
                pass
            released = holder.execute("SELECT clock_timestamp()").fetchone()
        thread.join()
    assert released is not None
    until = limiter.status("boeing").paused_until
    assert until is not None
    assert until >= released[0] + timedelta(seconds=500)


def test_the_clocks_of_the_callers_do_not_matter(pool: ConnectionPool) -> None:
    ahead, behind = (PostgresLimiter(pool, SkewedClock(skew_s), [BOEING]) for skew_s in (90, -90))
    first, second, third = ask(ahead), ask(behind), ask(ahead)
    with pool.connection() as conn:
        row = conn.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    assert abs(first.start_at - row[0] - timedelta(seconds=62.5)) < timedelta(seconds=60)
    gap = timedelta(seconds=30)
    assert gap <= second.start_at - first.start_at < gap * 1.01
    assert gap <= third.start_at - second.start_at < gap * 1.01
    assert ahead.status("boeing").reason == "history unknown", "and none of them saw a step"


def test_a_step_of_the_store_s_clock_is_noticed_once_per_key(
    limiter: PostgresLimiter, clock: VirtualClock
) -> None:
    limiter.settle(begin_call(limiter, clock), sent=True)
    clock.step(10)
    clock.sleep(1)
    assert ask(limiter, grace_s=1000).wait_s >= 29
    assert limiter.status("boeing").reason == "clock stepped"
    clock.sleep(29.001)
    assert ask(limiter).wait_s < 31


def test_nothing_is_granted_without_the_database(
    postgres: EmbeddedServer, clock: VirtualClock, database: str
) -> None:
    with open_pool(database, size=1) as pool:
        limiter = PostgresLimiter(pool, clock, [BOEING])
        permit = ask(limiter)
        clock.sleep(permit.wait_s)
        with pool.connection() as conn:
            name = conn.info.dbname
        postgres.drop_database(name)
        with pytest.raises(StoreError, match="the database is down"):
            limiter.begin(permit)


def test_rows_that_vanished_are_created_again_and_distrusted(
    limiter: PostgresLimiter, pool: ConnectionPool, clock: VirtualClock
) -> None:
    with pool.connection() as conn:
        conn.execute("DELETE FROM limiter")
    with pytest.raises(StoreError, match="rows are missing"):
        ask(limiter)
    assert ask(limiter).wait_s == pytest.approx(62.5, abs=0.001)


def test_an_error_in_the_middle_leaves_no_trace(pool: ConnectionPool, clock: VirtualClock) -> None:
    generator = rng("same")
    twice = itertools.cycle([fresh_id(generator)])
    limiter = PostgresLimiter(pool, clock, [BOEING], ids=lambda: next(twice))
    limiter.pause("boeing", 0, "")
    clock.sleep(1000)
    limiter.settle(begin_call(limiter, clock), sent=True)
    clock.sleep(1000)
    permit = ask(limiter)
    with pytest.raises(StoreError, match="duplicate key"):
        limiter.begin(permit)
    status = limiter.status("boeing")
    assert (status.in_flight, status.queue) == (0, {0: 1})


def test_a_user_who_may_not_read_the_control_file_still_has_a_lineage(
    pool: ConnectionPool, clock: VirtualClock, database: str
) -> None:
    plain = make_conninfo(database, user="plain", password="plain")
    with pool.connection() as conn:
        conn.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public")
        conn.execute("CREATE ROLE plain LOGIN PASSWORD 'plain'")
        try:
            conn.execute("GRANT SELECT, INSERT, UPDATE ON limiter, call_ledger TO plain")
            with open_pool(plain, size=1) as plain_pool:
                PostgresLimiter(plain_pool, clock, [BOEING]).pause("boeing", 0, "")
        finally:
            conn.execute("DROP OWNED BY plain")
            conn.execute("DROP ROLE plain")
        same = conn.execute(
            "SELECT split_part(lineage, ' ', 1) = oid::text FROM limiter, pg_database"
            " WHERE datname = current_database()"
        ).fetchone()
    assert same == (True,)


def test_a_connection_is_never_left_in_a_transaction(
    limiter: PostgresLimiter, pool: ConnectionPool
) -> None:
    limiter.status("boeing")
    with pool.connection() as conn:
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
