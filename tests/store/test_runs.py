"""Runs: taken by one server, kept under a lease, failed when that server falls silent."""

from datetime import timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import fresh_id
from headway.core.runs import Run, RunKind, RunStatus
from headway.errors import ConflictError, InvalidError, NotFoundError
from headway.store.runs import OPEN_MAX, Runs, cursor_of
from headway_lab.virtual_clock import VirtualClock

LEASE = timedelta(seconds=30)


@pytest.fixture
def runs(pool: ConnectionPool) -> Runs:
    return Runs(pool)


def add(runs: Runs, clock: VirtualClock, **request: object) -> Run:
    clock.sleep(1)
    return runs.add(fresh_id(), RunKind.SIMULATE, request, actor="ada", now=clock.now())


def test_runs_are_taken_in_the_order_in_which_they_were_asked_for(
    runs: Runs, clock: VirtualClock
) -> None:
    first, second = add(runs, clock, days=1), add(runs, clock, days=2)
    assert (first.status, first.actor, first.request) == (RunStatus.QUEUED, "ada", {"days": 1})
    taken = [runs.claim(owner, lease=LEASE, now=clock.now()) for owner in ("a", "b", "c")]
    assert [run and run.id for run in taken] == [first.id, second.id, None]
    assert runs.find(first.id).status is RunStatus.RUNNING


def test_how_far_it_is_never_goes_back_and_only_its_server_may_say_so(
    runs: Runs, clock: VirtualClock
) -> None:
    run = add(runs, clock)
    runs.claim("a", lease=LEASE, now=clock.now())
    for share in (0.5, 0.25):
        assert runs.report(run.id, "a", share, lease=LEASE, now=clock.now())
    assert not runs.report(run.id, "b", 0.9, lease=LEASE, now=clock.now())
    assert not runs.finish(run.id, "b", result=1, now=clock.now())
    assert runs.find(run.id).progress == 0.5
    assert runs.finish(run.id, "a", result={"fill": 1}, now=clock.now())
    over = runs.find(run.id)
    assert (over.status, over.progress, over.result) == (RunStatus.DONE, 1, {"fill": 1})


def test_a_run_whose_server_fell_silent_is_failed_by_the_next_that_looks(
    runs: Runs, clock: VirtualClock
) -> None:
    run = add(runs, clock)
    runs.claim("a", lease=LEASE, now=clock.now())
    clock.sleep(31)
    assert runs.claim("b", lease=LEASE, now=clock.now()) is None
    failed = runs.find(run.id)
    assert (failed.status, failed.error) == (
        RunStatus.FAILED,
        "the server that ran it has ended; ask again",
    )
    assert not runs.report(run.id, "a", 0.9, lease=LEASE, now=clock.now())


def test_a_cancelled_run_is_nobodys_and_one_that_is_over_stays_so(
    runs: Runs, clock: VirtualClock
) -> None:
    waiting, running = add(runs, clock), add(runs, clock)
    assert runs.cancel(waiting.id, now=clock.now()).status is RunStatus.CANCELLED
    runs.claim("a", lease=LEASE, now=clock.now())
    runs.cancel(running.id, now=clock.now())
    assert not runs.report(running.id, "a", 0.9, lease=LEASE, now=clock.now())
    with pytest.raises(ConflictError, match="cancelled"):
        runs.cancel(running.id, now=clock.now())
    for unknown in (fresh_id(), "nonsense"):
        with pytest.raises(NotFoundError):
            runs.cancel(unknown, now=clock.now())


def test_the_newest_come_first_page_by_page_without_their_results(
    runs: Runs, clock: VirtualClock
) -> None:
    added = [add(runs, clock).id for _ in range(3)]
    first = runs.newest(limit=2)
    assert [run.id for run in first] == [added[2], added[1]]
    assert [run.id for run in runs.newest(limit=2, cursor=cursor_of(first[-1]))] == [added[0]]
    with pytest.raises(InvalidError):
        runs.newest(limit=2, cursor="strange")


def test_only_so_many_wait_and_the_old_are_forgotten(runs: Runs, clock: VirtualClock) -> None:
    added = [add(runs, clock) for _ in range(OPEN_MAX)]
    with pytest.raises(ConflictError, match="waiting already"):
        add(runs, clock)
    runs.cancel(added[0].id, now=clock.now())
    clock.sleep(1)
    assert runs.forget(clock.now()) == 1
    assert len(runs.newest(limit=100)) == OPEN_MAX - 1
