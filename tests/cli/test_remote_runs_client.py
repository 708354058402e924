"""`headway simulate` and `plan` at a server: the same report and exit code; Ctrl-C cancels."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.cli.conftest import Headway, bare_environment
from tests.conftest import fresh_database
from tests.web.keys import shown

from headway.app import build
from headway.clock import SystemClock
from headway.config import Settings
from headway.core.runs import Run, RunStatus
from headway.runners.background import BackgroundRuns
from headway.store.pool import open_pool
from headway.store.runs import Runs
from headway.store.server.embedded import EmbeddedServer
from headway.web.server import SiteServer, address, listen
from headway.web.site import create

WALL = SystemClock()
PATIENCE_S = 120.0
LEASE = timedelta(minutes=1)
SMALL = ("simulate", "--policy", "rolling", "--products", "20", "--days", "0.05", "--seed", "3")
# Only what was measured in real time may differ.
REAL_TIME = re.compile(r"real time .*")
MEASURED = ("real_seconds", "simulated_seconds_per_real_second")


@dataclass(frozen=True, slots=True, kw_only=True)
class There:
    """A server, how to run a command at it and here, and its runs."""

    run: Headway
    runs: Runs
    settings: dict[str, str] = field(repr=False)  # the key is in it

    def here(self, *arguments: str) -> Any:
        return self.run(*arguments)

    def there(self, *arguments: str) -> Any:
        return self.run(*arguments, **self.settings)


@contextmanager
def serving(
    pool: ConnectionPool, run: Headway, folder: Path, background: BackgroundRuns
) -> Iterator[There]:
    site = create(build(Settings(data_dir=folder), WALL, pool), refresh_s=0)
    site.state.background = background
    taken = listen("127.0.0.1", 0)
    server = SiteServer(site, taken)
    server.start()
    key = shown(pool)["Authorization"].removeprefix("Bearer ")
    settings = {"HEADWAY_SERVER": address(taken).rstrip("/"), "HEADWAY_API_KEY": key}
    try:
        yield There(run=run, runs=Runs(pool), settings=settings)
    finally:
        server.stop()


@pytest.fixture
def working(
    pool: ConnectionPool, database: str, on_database: Headway, tmp_path: Path
) -> Iterator[There]:
    """A server that works runs out; its own settings name a server, which it must not ask."""
    environ = bare_environment(
        DATABASE_URL=database,
        HEADWAY_DATA_DIR=str(tmp_path),
        HEADWAY_SERVER="http://127.0.0.1:9",
        HEADWAY_API_KEY="hw_none",
    )
    with serving(pool, on_database, tmp_path, BackgroundRuns(Runs(pool), environ=environ)) as there:
        yield there


@pytest.fixture
def idle(
    postgres: EmbeddedServer, pool: ConnectionPool, on_database: Headway, tmp_path: Path
) -> Iterator[There]:
    """A server whose worker looks into another queue, so that a test can do its work."""
    with (
        fresh_database(postgres) as dsn,
        open_pool(dsn, size=2) as other,
        serving(pool, on_database, tmp_path, BackgroundRuns(Runs(other))) as there,
    ):
        yield there


def worked_out(runs: Runs, **answer: Any) -> threading.Thread:
    """Work out the next run as a server's worker does, with this answer."""

    def work() -> None:
        run = awaited(lambda: runs.claim("test", lease=LEASE, now=WALL.now()))
        runs.finish(run.id, "test", **answer, now=WALL.now())

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def awaited(look: Callable[[], Run | None]) -> Run:
    give_up_s = WALL.monotonic() + PATIENCE_S
    while (found := look()) is None:
        assert WALL.monotonic() < give_up_s
        WALL.sleep(0.05)
    return found


def test_a_plan_is_the_same_word_for_word(working: There) -> None:
    for words in (
        ("--products", "5000"),
        ("--products", "27000", "--add", "3000", "--policy", "rolling"),
        ("--products", "777", "--limit", "3.3"),
        ("--products", "777", "--json"),
        ("--products", "0"),
        ("--policy", "none"),
        (),
    ):
        here, there = working.here("plan", *words), working.there("plan", *words)
        assert (there.out, there.err, there.code) == (here.out, here.err, here.code), words


def test_a_simulation_is_the_same_but_for_the_time_it_took(working: There, tmp_path: Path) -> None:
    charts = [tmp_path / "here.svg", tmp_path / "there.svg"]
    here = working.here(*SMALL, "--plot", str(charts[0]))
    there = working.there(*SMALL, "--plot", str(charts[1]))
    assert (there.code, here.code) == (0, 0), there.err
    assert REAL_TIME.sub("", there.out) == REAL_TIME.sub("", here.out)
    assert charts[0].read_text() == charts[1].read_text()
    here, there = (
        working.here(*SMALL, "--json"),
        working.there(*SMALL, "--json", "--progress", "json"),
    )
    first, second = here.object(), there.object()
    assert list(first) == list(second), "in the same order, too"
    for name in MEASURED:
        first[name] = second[name] = None
    assert first == second
    assert json.loads(there.err.splitlines()[-1]) == {"progress": 1.0}


def test_what_makes_no_sense_is_refused_in_the_same_words(working: There) -> None:
    for words in (
        ("--world", "flat"),
        ("--fault", "nothing:1/h"),
        ("--products", "0"),
        ("--lane", "account", "--policy", "rolling"),
        ("--lane", "moon"),
    ):
        here, there = working.here("simulate", *words), working.there("simulate", *words)
        assert (there.err, there.code) == (here.err, here.code), words
        assert there.complaint(2)


def test_files_stay_where_they_are_and_it_says_so(idle: There, tmp_path: Path) -> None:
    for option in ("--changes", "--trace", "--database"):
        said = idle.there("simulate", option, str(tmp_path / "x.csv")).complaint(2)
        assert f"{option} works on this machine" in said
        assert '--server ""' in said
    assert idle.runs.newest(limit=1) == []


def test_a_law_that_broke_there_is_told_here_and_ends_with_one(idle: There) -> None:
    report = idle.here(*SMALL, "--json").object()
    report["laws"]["L2"] = 3
    for form in ((), ("--json",)):
        said = "L2: a call left with free seats\nreproduce: headway simulate"
        worker = worked_out(idle.runs, result=report, said=said, exit_code=1)
        told = idle.there(*SMALL, *form)
        worker.join()
        assert told.code == 1
        where = told.err if form else told.out
        assert said in where


@pytest.mark.parametrize(("code", "meant"), ((2, 2), (3, 3), (1, 1), (None, 1)))
def test_a_run_that_failed_there_fails_here_with_its_code(
    idle: There, code: int | None, meant: int
) -> None:
    worker = worked_out(idle.runs, error="it could not be done", exit_code=code)
    assert idle.there(*SMALL).complaint(meant) == "headway: it could not be done"
    worker.join()


def test_ctrl_c_cancels_the_run(working: There, tmp_path: Path) -> None:
    words = ("simulate", "--policy", "rolling", "--products", "500", "--days", "60")
    # Who was started in the background, as CI may be, ignores the signal, and we inherit that.
    heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    start = f"{heeds}; import sys; from headway.cli import main; sys.exit(main())"
    command = subprocess.Popen(
        [sys.executable, "-c", start, *words],
        env=bare_environment(**working.settings, HEADWAY_DATA_DIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        run = awaited(lambda: next(iter(working.runs.newest(limit=1)), None))
        # It has heard of the run once it has asked how far that is.
        awaited(lambda: each if (each := working.runs.find(run.id)).progress > 0 else None)
        os.kill(command.pid, signal.SIGINT)
        said, complained = command.communicate(timeout=PATIENCE_S)
    finally:
        command.kill()
        command.communicate()
    assert (command.returncode, said, complained) == (130, b"", b"")
    assert working.runs.find(run.id).status is RunStatus.CANCELLED
