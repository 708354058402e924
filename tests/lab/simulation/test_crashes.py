"""A crash is a crash: whoever died does nothing more, not even in a `finally`."""

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import rng
from headway_lab.simulation.crashes import STEPS_MAX, Crashed, CrashingPool, FaultInjector
from headway_lab.virtual_clock import VirtualClock


def touches_until_death(injector: FaultInjector) -> int:
    count = 0
    while count <= STEPS_MAX:
        try:
            injector.may_crash()
        except Crashed:
            return count
        count += 1
    return -1


def test_an_undoomed_worker_lives(clock: VirtualClock) -> None:
    assert touches_until_death(FaultInjector(clock)) == -1


def test_a_doomed_worker_dies_within_a_few_touches_and_stays_dead(clock: VirtualClock) -> None:
    generator = rng(1)
    counts = set()
    for _ in range(200):
        injector = FaultInjector(clock)
        injector.crash_soon(generator)
        injector.before_claim()
        counts.add(touches_until_death(injector))
        with pytest.raises(Crashed):
            injector.may_crash()
    assert counts == set(range(STEPS_MAX))


def test_a_worker_freezes_once_and_later_if_it_is_told_to_pass_some_points(
    clock: VirtualClock,
) -> None:
    injector = FaultInjector(clock)
    injector.stall(100, skips=1)
    for froze_s in (0, 100, 100):
        injector.may_freeze()
        assert clock.monotonic() == froze_s


def test_a_dead_workers_finally_writes_nothing(pool: ConnectionPool, clock: VirtualClock) -> None:
    injector = FaultInjector(clock)
    mortal = CrashingPool(pool, injector)

    def work() -> None:
        try:
            with mortal.connection() as connection:
                connection.execute("CREATE TABLE before_death ()")
                injector.end()
        finally:
            with mortal.connection() as connection:
                connection.execute("CREATE TABLE after_death ()")

    with pytest.raises(Crashed):
        work()
    with pool.connection() as connection:
        row = connection.execute(
            "SELECT to_regclass('before_death') IS NULL, to_regclass('after_death') IS NULL"
        ).fetchone()
    assert row == (False, True)
