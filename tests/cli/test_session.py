"""Which database a command joins, and that it makes no empty one beside another."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import PROGRAM, Headway, bare_environment

from headway.store.server.embedded import EmbeddedServer

READS = (
    ["status"], ["parts"], ["alerts"], ["held", "--json"], ["jobs"], ["db", "status"],
    ["vault", "status"], ["approve", "P1"], ["tier", "acme"],
)  # fmt: skip


@contextmanager
def waiting(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a command that has to wait for another headway; yield it when it says so."""
    with subprocess.Popen(
        [PROGRAM, *arguments],
        env=bare_environment(HEADWAY_DATA_DIR=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        message = process.stderr.readline()
        assert "waiting for the Headway that is starting or ending in" in message, message
        yield process


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_where_there_is_no_database_a_command_says_how_to_start_and_makes_none(
    headway_in_process: Headway, tmp_path: Path, command: list[str]
) -> None:
    message = headway_in_process(*command).error(2)
    assert f"there is no database in {tmp_path / 'none'} yet" in message
    assert "headway demo or headway run" in message
    assert not (tmp_path / "none").exists()


def test_a_command_waits_for_a_demo_that_is_starting_and_joins_it(
    database: str, postgres: EmbeddedServer, tmp_path: Path
) -> None:
    postgres.announce({})
    (tmp_path / "demo").symlink_to(postgres.data_dir)
    with waiting(tmp_path, "status") as process:
        postgres.announce({"database": database.rpartition("/")[2].partition("?")[0]})
        assert process.stdout is not None
        shown = process.stdout.read()
    postgres.announce({})
    assert process.returncode == 0
    assert "the running Headway" in shown
    assert not (tmp_path / "pg").exists(), "no second database"


def test_a_command_makes_no_database_when_the_demo_ends_while_it_waits(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    lock = os.open(tmp_path / "demo" / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with waiting(tmp_path, "approve", "P1") as process:
        os.close(lock)
        assert process.stderr is not None
        assert "no Headway is running, and there is no database" in process.stderr.read()
    assert process.returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
