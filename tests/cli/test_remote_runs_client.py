"""The commands simulate and plan at a server: same report and exit code; Ctrl-C cancels."""

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
from tests.web.keys import auth_headers

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

CLOCK = SystemClock()
PATIENCE_S = 120.0
LEASE = timedelta(minutes=1)
SMALL = ("simulate", "--policy", "rolling", "--products", "20", "--days", "0.05", "--seed", "3")
# Only what was measured in real time may differ.
REAL_TIME = re.compile(r"real time .*")
MEASURED = ("real_seconds", "simulated_seconds_per_real_second")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteServer:
    """A server with its runs, and how to run a command against it or locally."""

    run: Headway
    runs: Runs
    settings: dict[str, str] = field(repr=False)  # the key is in it

    def locally(self, *arguments: str) -> Any:
        return self.run(*arguments)

    def remotely(self, *arguments: str) -> Any:
        return self.run(*arguments, **self.settings)


@contextmanager
def serve_with(
    pool: ConnectionPool, run: Headway, folder: Path, background: BackgroundRuns
) -> Iterator[RemoteServer]:
    site = create(build(Settings(data_dir=folder), CLOCK, pool), refresh_s=0)
    site.state.background = background
    listener = listen("127.0.0.1", 0)
    server = SiteServer(site, listener)
    server.start()
    key = auth_headers(pool)["Authorization"].removeprefix("Bearer ")
    settings = {"HEADWAY_SERVER": address(listener).rstrip("/"), "HEADWAY_API_KEY": key}
    try:
        yield RemoteServer(run=run, runs=Runs(pool), settings=settings)
    finally:
        server.stop()


@pytest.fixture
def server(
    pool: ConnectionPool, database: str, on_database: Headway, tmp_path: Path
) -> Iterator[RemoteServer]:
    """A server that executes runs; its settings name another server, which it must ignore."""
    environ = bare_environment(
        DATABASE_URL=database,
        HEADWAY_DATA_DIR=str(tmp_path),
        HEADWAY_SERVER="http://127.0.0.1:9",
        HEADWAY_API_KEY="hw_none",
    )
    with serve_with(
        pool, on_database, tmp_path, BackgroundRuns(Runs(pool), environ=environ)
    ) as remotely:
        yield remotely


@pytest.fixture
def idle_server(
    postgres: EmbeddedServer, pool: ConnectionPool, on_database: Headway, tmp_path: Path
) -> Iterator[RemoteServer]:
    """A server whose worker uses another database, so that the test can do its work."""
    with (
        fresh_database(postgres) as dsn,
        open_pool(dsn, size=2) as other,
        serve_with(pool, on_database, tmp_path, BackgroundRuns(Runs(other))) as remotely,
    ):
        yield remotely


def answer_next_run(runs: Runs, **answer: Any) -> threading.Thread:
    """Finish the next run as a server's worker does, with this answer."""

    def work() -> None:
        run = wait_for(lambda: runs.claim("test", lease=LEASE, now=CLOCK.now()))
        runs.finish(run.id, "test", **answer, now=CLOCK.now())

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def wait_for(find: Callable[[], Run | None]) -> Run:
    give_up_s = CLOCK.monotonic() + PATIENCE_S
    while (run := find()) is None:
        assert CLOCK.monotonic() < give_up_s
        CLOCK.sleep(0.05)
    return run


def test_a_plan_prints_the_same_locally_and_remotely(server: RemoteServer) -> None:
    for arguments in (
        ("--products", "5000"),
        ("--products", "27000", "--add", "3000", "--policy", "rolling"),
        ("--products", "777", "--limit", "3.3"),
        ("--products", "777", "--json"),
        ("--products", "0"),
        ("--policy", "none"),
        (),
    ):
        local, remote = server.locally("plan", *arguments), server.remotely("plan", *arguments)
        assert (remote.out, remote.err, remote.code) == (local.out, local.err, local.code), (
            arguments
        )


def test_a_simulation_reports_the_same_except_for_its_duration(
    server: RemoteServer, tmp_path: Path
) -> None:
    charts = [tmp_path / "here.svg", tmp_path / "there.svg"]
    local = server.locally(*SMALL, "--plot", str(charts[0]))
    remote = server.remotely(*SMALL, "--plot", str(charts[1]))
    assert (remote.code, local.code) == (0, 0), remote.err
    assert REAL_TIME.sub("", remote.out) == REAL_TIME.sub("", local.out)
    assert charts[0].read_text() == charts[1].read_text()
    local, remote = (
        server.locally(*SMALL, "--json"),
        server.remotely(*SMALL, "--json", "--progress", "json"),
    )
    first, second = local.object(), remote.object()
    assert list(first) == list(second), "in the same order, too"
    for name in MEASURED:
        first[name] = second[name] = None
    assert first == second
    assert json.loads(remote.err.splitlines()[-1]) == {"progress": 1.0}


def test_invalid_simulations_have_the_same_error_locally_and_remotely(server: RemoteServer) -> None:
    for arguments in (
        ("--world", "flat"),
        ("--fault", "nothing:1/h"),
        ("--products", "0"),
        ("--lane", "account", "--policy", "rolling"),
        ("--lane", "moon"),
    ):
        local, remote = (
            server.locally("simulate", *arguments),
            server.remotely("simulate", *arguments),
        )
        assert (remote.err, remote.code) == (local.err, local.code), arguments
        assert remote.error(2)


def test_options_for_local_files_are_refused_with_a_server(
    idle_server: RemoteServer, tmp_path: Path
) -> None:
    for option in ("--changes", "--trace", "--database"):
        message = idle_server.remotely("simulate", option, str(tmp_path / "x.csv")).error(2)
        assert f"{option} works on this machine" in message
        assert '--server ""' in message
    assert idle_server.runs.newest(limit=1) == []


def test_a_violation_on_the_server_is_printed_and_sets_the_exit_code(
    idle_server: RemoteServer,
) -> None:
    report = idle_server.locally(*SMALL, "--json").object()
    report["laws"]["L2"] = 3
    for form in ((), ("--json",)):
        message = "L2: a call left with free seats\nreproduce: headway simulate"
        worker = answer_next_run(idle_server.runs, result=report, message=message, exit_code=1)
        result = idle_server.remotely(*SMALL, *form)
        worker.join()
        assert result.code == 1
        where = result.err if form else result.out
        assert message in where


@pytest.mark.parametrize(("code", "exit_code"), ((2, 2), (3, 3), (1, 1), (None, 1)))
def test_a_failed_run_on_the_server_sets_the_exit_code(
    idle_server: RemoteServer, code: int | None, exit_code: int
) -> None:
    worker = answer_next_run(idle_server.runs, error="it could not be done", exit_code=code)
    assert idle_server.remotely(*SMALL).error(exit_code) == "headway: it could not be done"
    worker.join()


def test_ctrl_c_cancels_the_run(server: RemoteServer, tmp_path: Path) -> None:
    arguments = ("simulate", "--policy", "rolling", "--products", "500", "--days", "60")
    # A process that was started in the background, as in CI, ignores SIGINT, and we inherit that.
    restore_sigint = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    start = f"{restore_sigint}; import sys; from headway.cli import main; sys.exit(main())"
    command = subprocess.Popen(
        [sys.executable, "-c", start, *arguments],
        env=bare_environment(**server.settings, HEADWAY_DATA_DIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        run = wait_for(lambda: next(iter(server.runs.newest(limit=1)), None))
        # The command knows the run once the run has made progress.
        wait_for(lambda: current if (current := server.runs.find(run.id)).progress > 0 else None)
        os.kill(command.pid, signal.SIGINT)
        message, stderr = command.communicate(timeout=PATIENCE_S)
    finally:
        command.kill()
        command.communicate()
    assert (command.returncode, message, stderr) == (130, b"", b"")
    assert server.runs.find(run.id).status is RunStatus.CANCELLED
