"""Commands as a person runs them: real processes, their output and exit code."""

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
from tests.cli.both import both, still

from headway.cli import main
from headway.store.server.embedded import EmbeddedServer

__all__ = ["both", "still"]

PROGRAM = Path(sys.executable).with_name("headway")
TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    code: int
    out: str
    err: str

    def object(self) -> Any:
        return json.loads(self.out)

    def complaint(self, code: int) -> str:
        """Return the one line of an expected failure."""
        assert self.code == code, self.err or self.out
        assert self.err.startswith("headway: "), self.err
        assert self.err.count("\n") == 1, self.err
        return self.err.strip()


Headway = Callable[..., Result]


def bare_environment(**settings: str) -> dict[str, str]:
    ours = ("HEADWAY_", "SYNC_", "DATABASE_URL", "PG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, **settings}


@contextmanager
def started(*arguments: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command that keeps running; one that a failed test leaves behind is killed."""
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
        done = subprocess.run(
            [PROGRAM, *arguments],
            cwd=tmp_path,
            env=bare_environment(**{"HEADWAY_DATA_DIR": str(tmp_path / "none"), **settings}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Result(code=done.returncode, out=done.stdout, err=done.stderr)

    return run


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Headway:
    """Run a command in an empty folder, but in this process: it starts faster."""

    def run(*arguments: str, **settings: str) -> Result:
        chosen = {"HEADWAY_DATA_DIR": str(tmp_path / "none"), **settings}
        with monkeypatch.context() as patch:
            for name in set(os.environ) - set(bare_environment()):
                patch.delenv(name)
            for name, value in chosen.items():
                patch.setenv(name, value)
            patch.chdir(tmp_path)
            code = main(arguments)
        shown = capsys.readouterr()
        return Result(code=code, out=shown.out, err=shown.err)

    return run


@pytest.fixture
def on_database(here: Headway, database: str) -> Headway:
    """Run a command in this process on this test's own, migrated database."""

    def run(*arguments: str, **settings: str) -> Result:
        return here(*arguments, **{"DATABASE_URL": database, **settings})

    return run


@pytest.fixture
def data_dir(postgres: EmbeddedServer) -> Iterator[Path]:
    """Yield a folder beside the test database's, where an embedded server may be made."""
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
