"""The example plug-in in a folder of its own, and programs that see it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "headway-example-platform"
HEADWAY = str(Path(sys.executable).with_name("headway"))
TIMEOUT_S = 120


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example into a folder of its own, without a network."""
    folder = tmp_path_factory.mktemp("plug-ins")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target")
    command = [sys.executable, "-m", "pip", "install", *options, str(folder), str(EXAMPLE)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def environment(plugins: Path, **settings: str) -> dict[str, str]:
    ours = ("HEADWAY_", "SYNC_", "DATABASE_URL", "PG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PYTHONPATH": str(plugins), "PYTHONUNBUFFERED": "1", **settings}


def run(
    command: Sequence[str], plugins: Path, cwd: Path, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that finds the plug-ins in that folder; keywords are settings."""
    return subprocess.run(
        command,
        env=environment(plugins, **settings),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
