"""`headway run` as a person runs it."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

PROGRAM = Path(sys.executable).with_name("headway")
ACCESS = {
    "HEADWAY_BOEING_CLIENT_ID": "me",
    "HEADWAY_BOEING_CLIENT_SECRET": "secret-1",
    "HEADWAY_BOEING_USERNAME": "user",
    "HEADWAY_BOEING_PASSWORD": "secret-2",
    "HEADWAY_BOEING_URL": "http://127.0.0.1:9",
}


def test_without_credentials_it_says_which_are_missing_and_starts_nothing(
    headway: Callable[..., Any],
) -> None:
    complaint = headway("run", "--port", "0").complaint(2)
    assert "HEADWAY_BOEING_CLIENT_ID" in complaint


@pytest.mark.parametrize("how", (signal.SIGINT, signal.SIGTERM))
def test_it_serves_the_page_can_be_joined_and_ends_on_a_signal(
    headway: Callable[..., Any], data_dir: Path, how: signal.Signals
) -> None:
    settings = {**ACCESS, "HEADWAY_DATA_DIR": str(data_dir)}
    process = subprocess.Popen(
        [PROGRAM, "run", "--port", "0"],
        env={"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1", **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "The page: " in said, said + process.stdout.read()
        url = said.split("The page: ")[1].strip()
        assert httpx.get(f"{url}api/sync/status", trust_env=False).status_code == 200
        status = headway("status", "--json", **settings)
        assert status.code == 0, status.err
        process.send_signal(how)
        rest = process.stdout.read()
        assert process.wait() == 0, rest
    assert rest.strip().endswith("Headway has stopped.")
    assert "secret-" not in rest
