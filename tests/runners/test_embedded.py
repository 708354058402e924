import threading
from datetime import UTC, datetime, timedelta

import pytest

from headway.clock import SystemClock
from headway.core.catalog.listings import Done, Wait
from headway.errors import InvariantError, StoreError
from headway.runners.embedded import EmbeddedRunner, run_steps
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_loop_sleeps_only_when_a_step_says_so() -> None:
    clock, stop = VirtualClock(START), threading.Event()
    times: list[float] = []

    def step() -> Done | Wait:
        times.append(clock.monotonic())
        if len(times) % 2:
            return Done(what="did it")
        return Wait(until=clock.now() + timedelta(seconds=30))

    clock.spawn(lambda: run_steps(step, clock, stop, lambda *_: None, "fetch"))
    clock.run(65)
    assert times == [0, 0, 30, 30, 60, 60]


def test_an_error_is_reported_in_one_line_and_retried_later() -> None:
    clock, stop = VirtualClock(START), threading.Event()
    reports: list[tuple[str, str]] = []

    def step() -> Done | Wait:
        if len(reports) < 2:
            raise StoreError("the database is away")
        return Wait(until=clock.now() + timedelta(days=1))

    clock.spawn(
        lambda: run_steps(step, clock, stop, lambda *report: reports.append(report), "fetch")
    )
    clock.run(60)
    assert reports == [("fetch", "the database is away")] * 2


def test_stopping_wakes_sleepers_and_waits_for_every_thread() -> None:
    clock = SystemClock()
    runner = EmbeddedRunner(clock)
    started = threading.Event()

    def step() -> Wait:
        started.set()
        return Wait(until=clock.now() + timedelta(days=1))

    runner.start(tick=step, fetch=step)
    assert started.wait(10)
    runner.stop()
    assert not {"tick", "fetch"} & {thread.name for thread in threading.enumerate()}


def test_a_bug_in_one_thread_stops_all_threads_and_is_raised() -> None:
    clock = SystemClock()
    runner = EmbeddedRunner(clock)

    def sound() -> Wait:
        return Wait(until=clock.now() + timedelta(days=1))

    def broken() -> Wait:
        raise KeyError("nobody expected this")

    runner.start(tick=sound, fetch=broken)
    assert runner.stopping.wait(10)
    runner.stop()
    with pytest.raises(InvariantError, match="fetch stopped at a bug"):
        runner.check()


def test_a_broken_invariant_is_never_retried() -> None:
    clock, stop = VirtualClock(START), threading.Event()

    def step() -> Wait:
        raise InvariantError("two owners")

    with pytest.raises(InvariantError, match="two owners"):
        run_steps(step, clock, stop, lambda *_: None, "fetch")
