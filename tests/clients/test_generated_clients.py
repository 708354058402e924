"""Clients are generated from our document without a warning, and one calls a running API."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.clients.generators import NONE, Generators, find
from tests.machine import Machine
from tests.operations.sample import ACME, create_sample
from tests.web.keys import auth_headers

from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.virtual_clock import VirtualClock

HERE = Path(__file__).parent
# One result a line is no type that the generator knows; docs/how-to/use-the-api.md says the same.
CONFIG = {"post_hooks": [], "content_type_overrides": {"application/x-ndjson": "text/plain"}}
DOCUMENT = HERE.parents[1] / "docs" / "reference" / "openapi.json"
TYPESCRIPT_FLAGS = ("--noEmit", "--strict", "--target", "es2022", "--module", "preserve")


@pytest.fixture(scope="module")
def generators() -> Generators:
    machine = Machine()
    own = find(machine)
    if own is None:
        machine.skip(NONE)
    return own


@pytest.fixture
def server(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Iterator[str]:
    sample = create_sample(pool, clock, tmp_path / "data")
    listener = listen("127.0.0.1", 0)
    site = SiteServer(create(sample.app, real_time=clock), listener)
    site.start()
    yield address(listener).rstrip("/")
    site.stop()


def run(*command: object, folder: Path) -> str:
    """Run a command; return what it printed, warnings included."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    return output


def test_a_python_client_is_generated_without_a_warning_and_calls_the_api(
    generators: Generators, server: str, pool: ConnectionPool, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    output = run(
        *generators.python_client, "generate", "--path", DOCUMENT, "--meta", "none",
        "--output-path", tmp_path / "headway_client", "--config", tmp_path / "config.json",
        "--fail-on-warning", folder=tmp_path,
    )  # fmt: skip
    assert "warning" not in output.lower()
    key = auth_headers(pool)["Authorization"].removeprefix("Bearer ")
    called = run(generators.python, HERE / "use_client.py", server, key, ACME, folder=tmp_path)
    answers = json.loads(called)
    assert answers["seller"] == ACME
    assert answers["currency"] == "USD"
    assert answers["paused"] == ["acme", "stocktaking"]
    assert answers["refused"][0] == 422
    assert answers["refused"][1].startswith("seller: ")


def test_typescript_types_are_generated_without_a_warning_and_compile(
    generators: Generators, tmp_path: Path
) -> None:
    output = run(
        *generators.typescript_types, DOCUMENT, "-o", tmp_path / "headway.ts", folder=tmp_path
    )
    assert "warn" not in output.lower()
    (tmp_path / "use_types.ts").write_text((HERE / "use_types.ts").read_text(encoding="utf-8"))
    compiled = run(
        *generators.typescript_compiler, *TYPESCRIPT_FLAGS, tmp_path / "use_types.ts",
        folder=tmp_path,
    )  # fmt: skip
    assert compiled == ""
