"""Processor time of five commands, against a Python that does nothing."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.table import show
from headway.clock import SystemClock
from headway.store.migrate import upgrade
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer

ROUNDS = 5
COMMANDS = ("--version", "--help", "status --help", "simulate --help", "status")


def run() -> None:
    """Print the smallest processor time of each, in several rounds."""
    program = [sys.executable, "-m", "headway"]
    folder = Path(tempfile.mkdtemp(prefix="headway-bench-"))
    try:
        with EmbeddedServer(folder / "data", clock=SystemClock()) as server:
            server.ensure_database("headway")
            with open_pool(server.dsn(), size=1) as pool:
                upgrade(pool, SystemClock())
            environment = {**os.environ, "DATABASE_URL": server.dsn()}
            nothing = _processor_s([sys.executable, "-c", "pass"], environment)
            times = {
                command: _processor_s([*program, *command.split()], environment)
                for command in COMMANDS
            }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = [("python -c pass", f"{nothing:.3f}", "1")]
    rows += [
        (f"headway {command}", f"{used:.3f}", f"{used / nothing:.0f}")
        for command, used in times.items()
    ]
    show("Start of a command", ("command", "processor s", "times nothing"), rows)


def _processor_s(command: Sequence[str], environment: dict[str, str]) -> float:
    """Return the smallest processor time of a command, in seconds."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, used)
    return best
