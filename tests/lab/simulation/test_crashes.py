"""A crashed worker does nothing more, not even in a `finally`."""

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import rng
from headway_lab.simulation.crashes import STEPS_MAX, Crashed, CrashingPool, FaultInjector
from headway_lab.virtual_clock import VirtualClock


def operations_until_crash(injector: FaultInjector) -> int:
    count = 0
    while count <= STEPS_MAX:
        try:
            injector.may_crash()
        except Crashed:
            return count
        count += 1
    return -1


def test_a_worker_without_a_scheduled_crash_never_crashes(clock: VirtualClock) -> None:
    assert operations_until_crash(FaultInjector(clock)) == -1


def test_a_scheduled_crash_comes_within_a_few_operations_and_is_final(clock: VirtualClock) -> None:
    generator = rng(1)
    counts = set()
    for _ in range(200):
        injector = FaultInjector(clock)
        injector.crash_soon(generator)
        injector.before_claim()
        counts.add(operations_until_crash(injector))
        with pytest.raises(Crashed):
            injector.may_crash()
    assert counts == set(range(STEPS_MAX))


def test_a_worker_freezes_once_or_some_points_later(
    clock: VirtualClock,
) -> None:
    injector = FaultInjector(clock)
    injector.stall(100, skips=1)
    for froze_s in (0, 100, 100):
        injector.may_freeze()
        assert clock.monotonic() == froze_s


def test_the_finally_of_a_crashed_worker_writes_nothing(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    injector = FaultInjector(clock)
    crashing_pool = CrashingPool(pool, injector)

    def work() -> None:
        try:
            with crashing_pool.connection() as connection:
                connection.execute("CREATE TABLE before_death ()")
                injector.end()
        finally:
            with crashing_pool.connection() as connection:
                connection.execute("CREATE TABLE after_death ()")

    with pytest.raises(Crashed):
        work()
    with pool.connection() as connection:
        row = connection.execute(
            "SELECT to_regclass('before_death') IS NULL, to_regclass('after_death') IS NULL"
        ).fetchone()
    assert row == (False, True)
