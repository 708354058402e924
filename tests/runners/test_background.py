"""Background runs: a child process that is followed, cancelled and never orphaned."""

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
CLOCK = SystemClock()


@pytest.fixture
def runs(pool: ConnectionPool) -> Runs:
    return Runs(pool)


@contextmanager
def server(runs: Runs, folder: Path, **environ: str) -> Iterator[BackgroundRuns]:
    """Execute runs as a server does, with these settings."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("HEADWAY", "DATABASE"))}
    settings = {**plain, "HEADWAY_DATA_DIR": str(folder), **environ}
    background = BackgroundRuns(runs, environ=settings)
    background.start()
    try:
        yield background
    finally:
        background.stop()


def request_run(runs: Runs, kind: RunKind, **request: Any) -> Run:
    return runs.add(fresh_id(), kind, request, actor="ada", now=CLOCK.now())


def wait_for(runs: Runs, run: Run, until: Callable[[Run], bool]) -> Run:
    give_up_s = CLOCK.monotonic() + PATIENCE_S
    while not until(current := runs.find(run.id)):
        assert CLOCK.monotonic() < give_up_s, current
        CLOCK.sleep(0.05)
    return current


def test_the_result_of_a_plan_is_the_output_of_the_command(runs: Runs, tmp_path: Path) -> None:
    run = request_run(runs, RunKind.PLAN, products=5000, add=100)
    with server(runs, tmp_path):
        finished = wait_for(runs, run, lambda run: run.is_over)
    assert (finished.status, finished.error, finished.progress) == (RunStatus.DONE, "", 1)
    assert finished.result["products"] == 5000
    assert finished.result["growth"]["add"] == 100


def test_an_invalid_run_fails_with_the_error_of_the_command(runs: Runs, tmp_path: Path) -> None:
    run = request_run(runs, RunKind.SIMULATE, products=5, faults=["--json"])
    with server(runs, tmp_path):
        finished = wait_for(runs, run, lambda run: run.is_over)
    assert finished.status is RunStatus.FAILED
    assert "--json" in finished.error


def test_a_simulation_reports_progress_and_stores_its_result(
    runs: Runs, tmp_path: Path, database: str
) -> None:
    run = request_run(runs, RunKind.SIMULATE, policy="rolling", products=20, days=0.25)
    with server(runs, tmp_path, DATABASE_URL=database):
        started = wait_for(runs, run, lambda run: run.progress > 0)
        assert started.progress <= 1
        finished = wait_for(runs, run, lambda run: run.is_over)
    assert (finished.status, finished.result["products"]) == (RunStatus.DONE, 20)
    assert finished.result["laws"]


def test_a_cancelled_run_ends_at_once_and_the_next_one_starts(
    runs: Runs, tmp_path: Path, database: str
) -> None:
    long = request_run(runs, RunKind.SIMULATE, policy="rolling", products=500, days=60)
    after = request_run(runs, RunKind.PLAN, products=10)
    with server(runs, tmp_path, DATABASE_URL=database) as background:
        wait_for(runs, long, lambda run: run.status is RunStatus.RUNNING)
        assert runs.find(after.id).status is RunStatus.QUEUED
        runs.cancel(long.id, now=CLOCK.now())
        background.ring()
        assert wait_for(runs, after, lambda run: run.is_over).status is RunStatus.DONE
    assert runs.find(long.id).status is RunStatus.CANCELLED


def test_a_stopping_server_fails_its_current_run(runs: Runs, tmp_path: Path, database: str) -> None:
    run = request_run(runs, RunKind.SIMULATE, policy="rolling", products=500, days=60)
    with server(runs, tmp_path, DATABASE_URL=database):
        wait_for(runs, run, lambda run: run.progress > 0)
    finished = runs.find(run.id)
    assert (finished.status, finished.error) == (
        RunStatus.FAILED,
        "the server was stopped; ask again",
    )
    with runs._pool.connection() as connection:
        kept = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE '%sim%'")
        assert kept.fetchall() == []
