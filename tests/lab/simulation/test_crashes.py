"""A crash is a crash: whoever died does nothing more, not even in a `finally`."""

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import rng
from headway_lab.simulation.crashes import TOUCHES_MAX, Crashed, CrashingPool, Life
from headway_lab.virtual_clock import VirtualClock


def touches_until_death(life: Life) -> int:
    count = 0
    while count <= TOUCHES_MAX:
        try:
            life.touch()
        except Crashed:
            return count
        count += 1
    return -1


def test_an_undoomed_worker_lives(clock: VirtualClock) -> None:
    assert touches_until_death(Life(clock)) == -1


def test_a_doomed_worker_dies_within_a_few_touches_and_stays_dead(clock: VirtualClock) -> None:
    generator = rng(1)
    counts = set()
    for _ in range(200):
        life = Life(clock)
        life.doom(generator)
        life.joins_call()
        counts.add(touches_until_death(life))
        with pytest.raises(Crashed):
            life.touch()
    assert counts == set(range(TOUCHES_MAX))


def test_a_worker_freezes_once_and_later_if_it_is_told_to_pass_some_points(
    clock: VirtualClock,
) -> None:
    life = Life(clock)
    life.stall(100, skips=1)
    for froze_s in (0, 100, 100):
        life.freeze()
        assert clock.monotonic() == froze_s


def test_a_dead_workers_finally_writes_nothing(pool: ConnectionPool, clock: VirtualClock) -> None:
    life = Life(clock)
    mortal = CrashingPool(pool, life)

    def work() -> None:
        try:
            with mortal.connection() as connection:
                connection.execute("CREATE TABLE before_death ()")
                life.end()
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
