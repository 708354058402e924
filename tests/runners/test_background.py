"""Background runs: the command in a process of its own, watched, cancelled, and never orphaned."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock, fresh_id
from headway.core.runs import Run, RunKind, RunStatus
from headway.runners.background import BackgroundRuns
from headway.store.runs import Runs

PATIENCE_S = 120.0
WALL = SystemClock()


@pytest.fixture
def runs(pool: ConnectionPool) -> Runs:
    return Runs(pool)


@contextmanager
def server(runs: Runs, folder: Path, **environ: str) -> Iterator[BackgroundRuns]:
    """Work out runs as a server does, with settings of its own."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("HEADWAY", "DATABASE"))}
    told = {**plain, "HEADWAY_DATA_DIR": str(folder), **environ}
    working = BackgroundRuns(runs, environ=told)
    working.start()
    try:
        yield working
    finally:
        working.stop()


def ask(runs: Runs, kind: RunKind, **request: Any) -> Run:
    return runs.add(fresh_id(), kind, request, actor="ada", now=WALL.now())


def awaited(runs: Runs, run: Run, until: Callable[[Run], bool]) -> Run:
    give_up_s = WALL.monotonic() + PATIENCE_S
    while not until(found := runs.find(run.id)):
        assert WALL.monotonic() < give_up_s, found
        WALL.sleep(0.05)
    return found


def test_a_plan_comes_to_what_the_command_prints(runs: Runs, tmp_path: Path) -> None:
    run = ask(runs, RunKind.PLAN, products=5000, add=100)
    with server(runs, tmp_path):
        over = awaited(runs, run, lambda each: each.is_over)
    assert (over.status, over.error, over.progress) == (RunStatus.DONE, "", 1)
    assert over.result["products"] == 5000
    assert over.result["growth"]["add"] == 100


def test_what_makes_no_sense_fails_with_what_the_command_says(runs: Runs, tmp_path: Path) -> None:
    run = ask(runs, RunKind.SIMULATE, products=5, faults=["--json"])
    with server(runs, tmp_path):
        over = awaited(runs, run, lambda each: each.is_over)
    assert over.status is RunStatus.FAILED
    assert "--json" in over.error


def test_a_simulation_says_how_far_it_is_and_keeps_its_report(
    runs: Runs, tmp_path: Path, database: str
) -> None:
    run = ask(runs, RunKind.SIMULATE, policy="rolling", products=20, days=0.25)
    with server(runs, tmp_path, DATABASE_URL=database):
        seen = awaited(runs, run, lambda each: each.progress > 0)
        assert seen.progress <= 1
        over = awaited(runs, run, lambda each: each.is_over)
    assert (over.status, over.result["products"]) == (RunStatus.DONE, 20)
    assert over.result["laws"]


def test_a_cancelled_run_ends_at_once_and_the_next_one_begins(
    runs: Runs, tmp_path: Path, database: str
) -> None:
    long = ask(runs, RunKind.SIMULATE, policy="rolling", products=500, days=60)
    after = ask(runs, RunKind.PLAN, products=10)
    with server(runs, tmp_path, DATABASE_URL=database) as working:
        awaited(runs, long, lambda run: run.status is RunStatus.RUNNING)
        assert runs.find(after.id).status is RunStatus.QUEUED
        runs.cancel(long.id, now=WALL.now())
        working.ring()
        assert awaited(runs, after, lambda run: run.is_over).status is RunStatus.DONE
    assert runs.find(long.id).status is RunStatus.CANCELLED


def test_a_server_that_stops_fails_the_run_it_was_at(
    runs: Runs, tmp_path: Path, database: str
) -> None:
    run = ask(runs, RunKind.SIMULATE, policy="rolling", products=500, days=60)
    with server(runs, tmp_path, DATABASE_URL=database):
        awaited(runs, run, lambda each: each.progress > 0)
    over = runs.find(run.id)
    assert (over.status, over.error) == (RunStatus.FAILED, "the server was stopped; ask again")
    with runs._pool.connection() as connection:
        kept = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE '%sim%'")
        assert kept.fetchall() == []
