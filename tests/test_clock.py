import threading
from datetime import UTC, datetime, timedelta

import pytest

from headway.clock import ScaledClock, SystemClock, fresh_id, rng
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_virtual_time_passes_only_when_all_actors_sleep() -> None:
    clock = VirtualClock(START)
    assert clock.now() == clock.now() == START
    clock.sleep(90)
    assert clock.now() == START + timedelta(seconds=90)


def test_actors_wake_by_time_and_then_in_the_order_they_fell_asleep() -> None:
    clock = VirtualClock(START)
    wakeups: list[tuple[str, float]] = []

    def actor(name: str, pause_s: float) -> None:
        for _ in range(3):
            clock.sleep(pause_s)
            wakeups.append((name, clock.monotonic()))

    clock.spawn(lambda: actor("a", 2))
    clock.spawn(lambda: actor("b", 3))
    clock.run(7)
    assert wakeups == [("a", 2), ("b", 3), ("a", 4), ("b", 6), ("a", 6)]
    clock.run(100)
    assert wakeups[-1] == ("b", 9)
    assert clock.monotonic() == 100


def test_an_error_of_an_actor_is_raised_where_the_clock_is_run() -> None:
    clock = VirtualClock(START)

    def actor() -> None:
        clock.sleep(1)
        raise ValueError("raised")

    clock.spawn(actor)
    with pytest.raises(ValueError, match="raised"):
        clock.run(10)


def test_a_stepped_wall_clock_does_not_move_the_monotonic_one() -> None:
    clock = VirtualClock(START)
    clock.step(3600)
    assert clock.now() == START + timedelta(hours=1)
    assert clock.monotonic() == 0


def test_a_set_event_ends_every_kind_of_sleep_at_once() -> None:
    wake = threading.Event()
    wake.set()
    virtual = VirtualClock(START)
    virtual.sleep(1e9, wake)
    assert virtual.now() == START
    SystemClock().sleep(1e6, wake)
    ScaledClock(60, start=START).sleep(1e6, wake)


def test_two_processes_that_share_a_scaled_clock_agree_on_the_time() -> None:
    first = ScaledClock(60, start=START, origin_s=SystemClock().monotonic() - 100)
    second = ScaledClock(60, start=START, origin_s=first.origin_s)
    before, between, after = first.now(), second.now(), first.now()
    assert START + timedelta(seconds=6000) <= before <= between <= after


def test_a_seed_gives_the_same_numbers_and_identifiers_every_time() -> None:
    assert [rng(7).random() for _ in range(3)] == [rng(7).random() for _ in range(3)]
    assert fresh_id(rng(7)) == fresh_id(rng(7)) != fresh_id(rng(8))
    assert fresh_id() != fresh_id()
