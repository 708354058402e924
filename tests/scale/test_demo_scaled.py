"""`headway demo --workers`: the demo with real workers, run in a terminal."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.lab.demo.test_command import (
    TIMEOUT_S,
    all_end,
    descendants,
    handles_of,
    logged_in,
    watch_a_call_leave,
    watch_a_shop_be_written,
)
from tests.scale.workers import ProcessGroup

from headway.cli import main

QUICK = ("demo", "--workers", "2", "--speed", "300", "--products", "10", "--port", "0")
# The demo prints nothing while it simulates its past, which takes minutes on a busy machine.
SILENCE_S = 600
WORKS = re.compile(r"(worker \d) \| Headway works as \S+:(\d+): tick, fetch\.boeing, ")


@contextmanager
def process_handles(pids: list[int]) -> Iterator[dict[int, int]]:
    """Keep a handle for each process, which outlives a reused id."""
    handles = handles_of(pids)
    yield handles
    assert all_end(handles), "nothing may be left running"


def last_pids(group: ProcessGroup) -> dict[str, int]:
    """Return the last process id under each worker name."""
    return {match[1]: int(match[2]) for line in group.output if (match := WORKS.match(line))}


@pytest.mark.timeout(TIMEOUT_S)
def test_workers_run_the_demo_are_replaced_when_killed_and_end_with_it(
    tmp_path: Path,
) -> None:
    # A killed worker's call may still be in progress until its timeout; no other is sent before.
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}  # the workers use the same sources
    environ = {"HOME": str(tmp_path), "HEADWAY_BOEING_TIMEOUT_S": "3", **path}
    group = ProcessGroup(environ=environ, patience_s=SILENCE_S)
    demo = group.start(*QUICK)
    try:
        link = group.until_output("The page: ").partition("The page: ")[2].strip()
        group.until(lambda: len(last_pids(group)) == 2)
        with logged_in(link) as client:
            group.until_output("| fetch: read ")
            group.until_output("| pull: ")
            first = last_pids(group)
            os.kill(first["worker 1"], signal.SIGKILL)
            group.until_output("worker 1 | was ended by SIGKILL; it is started again in 1 s")
            group.until(lambda: last_pids(group)["worker 1"] != first["worker 1"])
            group.output.clear()
            group.until_output("worker 1 | ")
            watch_a_call_leave(client)
            watch_a_shop_be_written(client)
        with process_handles(descendants(demo.pid)):
            assert group.stop() == [0]
        group.until_output("nothing is left running")
        verdict = group.until_output("Calls refused")
        assert verdict.endswith("the supplier 0, Shopify 0, Etsy 0, Printify 0.")
        assert not any("Traceback" in line for line in group.output)
    finally:
        demo.kill()


def test_without_the_extra_it_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "celery", None)
    monkeypatch.setenv("HEADWAY_DATA_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(sys, "argv", ["headway", *QUICK])
    assert main() == 2
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert (
        "headway demo --workers needs Celery and redis-py; install them: pip install" in output.err
    )
    assert not list(tmp_path.iterdir())
