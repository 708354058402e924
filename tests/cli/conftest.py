"""Run commands as a user does: real processes, their output and exit code."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.cli.both import both, frozen_clock

from headway.cli import main
from headway.store.server.embedded import EmbeddedServer

__all__ = ["both", "frozen_clock"]

PROGRAM = Path(sys.executable).with_name("headway")
TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    code: int
    out: str
    err: str

    def object(self) -> Any:
        return json.loads(self.out)

    def error(self, code: int) -> str:
        """Return the error message of an expected failure, which is one line."""
        assert self.code == code, self.err or self.out
        assert self.err.startswith("headway: "), self.err
        assert self.err.count("\n") == 1, self.err
        return self.err.strip()


Headway = Callable[..., Result]


def bare_environment(**settings: str) -> dict[str, str]:
    prefixes = ("HEADWAY_", "SYNC_", "DATABASE_URL", "PG")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return {**inherited, **settings}


@contextmanager
def start_command(*arguments: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command that keeps running; kill it at the end."""
    with subprocess.Popen(
        [PROGRAM, *arguments],
        env=bare_environment(PYTHONUNBUFFERED="1", **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def headway(tmp_path: Path) -> Headway:
    """Run a command in an empty folder; keywords are settings."""

    def run(*arguments: str, **settings: str) -> Result:
        result = subprocess.run(
            [PROGRAM, *arguments],
            cwd=tmp_path,
            env=bare_environment(**{"HEADWAY_DATA_DIR": str(tmp_path / "none"), **settings}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Result(code=result.returncode, out=result.stdout, err=result.stderr)

    return run


@pytest.fixture
def headway_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Headway:
    """Run a command in an empty folder, but in this process: it starts faster."""

    def run(*arguments: str, **settings: str) -> Result:
        environment = {"HEADWAY_DATA_DIR": str(tmp_path / "none"), **settings}
        with monkeypatch.context() as patch:
            for name in set(os.environ) - set(bare_environment()):
                patch.delenv(name)
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.chdir(tmp_path)
            code = main(arguments)
        captured = capsys.readouterr()
        return Result(code=code, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def on_database(headway_in_process: Headway, database: str) -> Headway:
    """Run a command in this process on this test's own, migrated database."""

    def run(*arguments: str, **settings: str) -> Result:
        return headway_in_process(*arguments, **{"DATABASE_URL": database, **settings})

    return run


@pytest.fixture
def data_dir(postgres: EmbeddedServer) -> Iterator[Path]:
    """Yield a folder next to the test database's, for an embedded server."""
    folder = postgres.data_dir.with_name(f"{postgres.data_dir.name}-cli")
    shutil.rmtree(folder, ignore_errors=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def execute(pool: ConnectionPool) -> Callable[..., None]:
    def run(statement: str, *values: object) -> None:
        with pool.connection() as connection:
            connection.execute(statement, values)

    return run
