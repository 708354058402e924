"""An expected failure is one line that says what to do, and an exit code; nothing is changed."""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.cli import main
from headway.store.server.embedded import EmbeddedServer, find_running

Headway = Callable[..., Any]
HOLD = """
import sys
from pathlib import Path
from headway.clock import SystemClock
from headway.store.server.embedded import EmbeddedServer
with EmbeddedServer(Path(sys.argv[1]), clock=SystemClock()):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_an_unknown_setting_is_named_with_a_suggestion(headway: Headway) -> None:
    message = headway("status", HEADWAY_POLCY="rolling").error(2)
    assert "unknown setting HEADWAY_POLCY; did you mean HEADWAY_POLICY?" in message


def test_an_unknown_setting_of_the_file_is_named_with_the_file(
    headway_in_process: Headway, tmp_path: Path
) -> None:
    (tmp_path / "headway.toml").write_text('HEADWAY_POLCY = "rolling"\n')
    message = headway_in_process("status").error(2)
    assert "headway.toml: unknown setting HEADWAY_POLCY" in message


def test_a_file_that_is_not_toml_is_named(headway_in_process: Headway, tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text("HEADWAY_POLICY rolling\n")
    assert "headway.toml: " in headway_in_process("status").error(2)


def test_a_value_out_of_bounds_is_named(headway_in_process: Headway) -> None:
    assert "SYNC_BATCH_SIZE" in headway_in_process("status", SYNC_BATCH_SIZE="11").error(2)


def test_a_malformed_address_is_refused_without_showing_its_password(
    headway_in_process: Headway,
) -> None:
    url = "postgresql://me:hunter2/secret@db.example:5432/shop"
    message = headway_in_process("status", DATABASE_URL=url).error(2)
    assert "DATABASE_URL cannot be read; write it as postgresql://" in message
    assert "hunter2" not in message


def test_a_port_without_a_server_is_named(headway_in_process: Headway, database: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"postgresql://me:hunter2@127.0.0.1:{port}/shop"
    message = headway_in_process("status", DATABASE_URL=url).error(3)
    assert f"127.0.0.1:{port}/shop does not answer; start PostgreSQL there" in message
    assert "hunter2" not in message


def test_a_wrong_password_is_reported(headway_in_process: Headway, database: str) -> None:
    before, _, after = database.partition("@")
    url = f"{before.rpartition(':')[0]}:hunter2@{after}"
    message = headway_in_process("status", DATABASE_URL=url).error(2)
    assert "refuses this user or password; correct DATABASE_URL" in message
    assert "hunter2" not in message


def test_a_missing_database_is_reported(headway_in_process: Headway, database: str) -> None:
    before, _, after = database.rpartition("/")
    url = f"{before}/no_such_shop?{after.partition('?')[2]}"
    message = headway_in_process("status", DATABASE_URL=url).error(2)
    assert "/no_such_shop has no such database or user" in message


def test_a_database_without_tables_names_the_command_to_run(
    headway_in_process: Headway, postgres: EmbeddedServer
) -> None:
    postgres.ensure_database("test_cli_bare")
    try:
        message = headway_in_process("status", DATABASE_URL=postgres.dsn("test_cli_bare")).error(3)
        assert "run: headway db upgrade" in message
    finally:
        postgres.drop_database("test_cli_bare")


@pytest.mark.parametrize("folder", ("/dev/null/data", "/proc/data"))
def test_a_folder_that_cannot_be_written_is_named(headway_in_process: Headway, folder: str) -> None:
    message = headway_in_process("db", "upgrade", HEADWAY_DATA_DIR=folder).error(2)
    assert folder in message
    assert "set HEADWAY_DATA_DIR to a folder you may write to" in message


def test_a_folder_in_use_by_another_headway_is_reported(
    headway_in_process: Headway, data_dir: Path
) -> None:
    data_dir.mkdir()
    handle = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        result = headway_in_process("status", HEADWAY_DATA_DIR=str(data_dir))
    finally:
        os.close(handle)
    waits, message = result.err.splitlines()
    assert result.code == 2
    assert waits.endswith(f"that is starting or ending in {data_dir}")
    assert f"{data_dir} is in use by another Headway" in message
    assert "stop it or set HEADWAY_DATA_DIR" in message
    assert [path.name for path in data_dir.iterdir()] == ["lock"]


@pytest.fixture
def killed_run(data_dir: Path) -> Path:
    """Return the folder of a process that was killed while it held the server."""
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    return data_dir


def test_a_command_works_after_a_run_was_killed(headway: Headway, killed_run: Path) -> None:
    assert (killed_run / "server.json").exists()
    result = headway("check", HEADWAY_DATA_DIR=str(killed_run))
    assert result.code == 0, result.err
    assert find_running(killed_run) is None
    assert not (killed_run / "server.json").exists()


def test_a_port_in_use_is_named_by_the_demo_before_anything_starts(
    headway: Headway, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        message = headway("demo", "--port", str(port)).error(2)
    assert str(port) in message
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    (
        (["statsu"], "Did you mean 'status'? See: headway --help"),
        (["status", "--colour"], "see: headway status --help"),
        (["explain"], "see: headway explain --help"),
        (["db", "downgrade"], "see: headway db downgrade --help"),
        (["db", "downgrade", "--to", "x"], "see: headway db downgrade --help"),
        (["simulate", "--fault"], "see: headway simulate --help"),
    ),
)
def test_a_misused_command_points_to_its_help(
    capsys: pytest.CaptureFixture[str], arguments: list[str], hint: str
) -> None:
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("headway: ")
    assert message.endswith(f"{hint}\n")
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    (
        (["demo", "--port", "80000"], "--port"),
        (["demo", "--policy", "hourly"], "--policy"),
        (["simulate", "--days", "soon"], "--days"),
        (["db", "downgrade"], "--to"),
        (["explain"], "'SKU|JOB'"),
    ),
)
def test_a_bad_or_missing_value_is_reported_with_its_option(
    capsys: pytest.CaptureFixture[str], arguments: list[str], culprit: str
) -> None:
    assert main(arguments) == 2
    assert culprit in capsys.readouterr().err


def test_with_json_a_failure_is_also_an_object_on_stdout(headway: Headway) -> None:
    result = headway("status", "--json", HEADWAY_POLICY="sometimes")
    message = result.error(2)
    assert result.object() == {"error": message.removeprefix("headway: "), "exit_code": 2}


def test_a_closed_pipe_is_not_an_error(database: str) -> None:
    program = Path(sys.executable).with_name("headway")
    with subprocess.Popen(
        [program, "doctor"],
        env={**os.environ, "DATABASE_URL": database},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.close()
        assert writer.stderr.read() == ""


def test_ctrl_c_ends_a_command_quietly_and_leaves_nothing_running(data_dir: Path) -> None:
    program = Path(sys.executable).with_name("headway")
    with subprocess.Popen(
        [program, "demo", "--port", "0", "--products", "5"],
        env={**os.environ, "HEADWAY_DATA_DIR": str(data_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "demo" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()
    assert "Traceback" not in stderr
    assert processes_of(data_dir) == []


def test_a_command_stops_the_server_it_started(headway: Headway, data_dir: Path) -> None:
    assert headway("db", "upgrade", HEADWAY_DATA_DIR=str(data_dir)).code == 0
    assert (data_dir / "pg").is_dir()
    assert processes_of(data_dir) == []


def processes_of(folder: Path) -> list[str]:
    """Return the command lines that name this folder."""
    command_lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            command_lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in command_lines if str(folder) in line]


def test_concurrent_commands_on_the_embedded_database_all_succeed(data_dir: Path) -> None:
    program = Path(sys.executable).with_name("headway")
    environment = {**os.environ, "HEADWAY_DATA_DIR": str(data_dir)}
    processes = [
        subprocess.Popen([program, "db", "upgrade"], env=environment, stdout=subprocess.DEVNULL)
        for _ in range(3)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
