"""The embedded server through starts, stops, kills and bad folders, with real processes."""

import fcntl
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from headway.clock import SystemClock
from headway.errors import ConfigError, StoreError
from headway.store.pool import guarded, open_pool
from headway.store.server import launch
from headway.store.server.embedded import EmbeddedServer, find_running
from headway_lab.virtual_clock import VirtualClock

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
START = datetime(2026, 1, 1, tzinfo=UTC)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root must stop being root")
OWNER = """
    import sys
    from pathlib import Path
    from headway.clock import SystemClock
    from headway.errors import ConfigError
    from headway.store.server.embedded import EmbeddedServer
    server = EmbeddedServer(Path(sys.argv[1]), clock=SystemClock(), settings={fast}, drop={drop!r})
    try:
        server.start()
    except ConfigError as error:
        sys.exit(str(error))
    print(server.pid, flush=True)
    sys.stdin.read()
    server.stop()
"""


def embedded(folder: Path, drop: launch.Drop | None = None) -> EmbeddedServer:
    return EmbeddedServer(folder, clock=VirtualClock(START), settings=FAST, drop=drop)


@contextmanager
def other_owner(
    folder: Path, drop: launch.Drop | None = None, **environ: str
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that owns a server; yields it and the server's process id."""
    code = textwrap.dedent(OWNER).format(fast=FAST, drop=drop)
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | environ,
    )  # fmt: skip
    assert owner.stdin is not None
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    try:
        yield owner, pid
    finally:
        owner.kill()
        owner.wait()
        await_end(pid)
        owner.stdin.close()
        owner.stdout.close()


def await_end(pid: int) -> None:
    """Wait until that process is gone, or fail after a while."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([handle], [], [], 30)[0], f"process {pid} does not end"
    os.close(handle)


def write_rows(dsn: str, count: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS kept (a int)")
        conn.execute("INSERT INTO kept SELECT generate_series(1, %s)", (count,))


def row_count(dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("SELECT count(*) FROM kept").fetchone()
    assert row is not None
    return row[0]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(scope="module")
def made(postgres: EmbeddedServer) -> Iterator[Path]:
    """A database made once, then stopped; tests work on copies, in memory."""
    original = postgres.data_dir.with_name(f"{postgres.data_dir.name}-made")
    with embedded(original):
        pass
    yield original
    shutil.rmtree(original)


@pytest.fixture
def folder(made: Path) -> Iterator[Path]:
    """A copy of a stopped database, for tests that are not about the first start."""
    copy = made.with_name(f"{made.name}-copy")
    shutil.copytree(made, copy)
    yield copy
    shutil.rmtree(copy)


@pytest.fixture
def open_folder(postgres: EmbeddedServer) -> Iterator[Path]:
    """An empty folder that every user can enter, unlike pytest's own."""
    empty = postgres.data_dir.with_name(f"{postgres.data_dir.name}-open")
    empty.mkdir()
    yield empty
    shutil.rmtree(empty)


def test_it_starts_twice_in_a_row_and_keeps_its_rows(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    with embedded(folder) as server:
        server.ensure_database("headway")
        server.ensure_database("headway")
        write_rows(server.dsn(), 3)
        first_pid = server.pid
    await_end(first_pid)
    with embedded(folder) as server:
        assert row_count(server.dsn()) == 3
        server.drop_database("headway")
        server.drop_database("headway")
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            psycopg.connect(server.dsn())


def test_it_listens_on_loopback_only_and_asks_for_the_password(
    postgres: EmbeddedServer,
) -> None:
    with psycopg.connect(postgres.dsn("postgres")) as conn:
        assert conn.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        assert conn.execute("SHOW unix_socket_directories").fetchone() == ("",)
        rules = conn.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
    assert rules == [("scram-sha-256",)]
    facts = psycopg.conninfo.conninfo_to_dict(postgres.dsn("postgres"))
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(psycopg.conninfo.make_conninfo(**facts | {"password": "guess"}))


def test_what_is_secret_is_private_and_never_shown(postgres: EmbeddedServer) -> None:
    folder = postgres.data_dir
    password = (folder / "password").read_text()
    assert len(password) >= 32
    for name in ("password", "server.json", "lock"):
        assert mode(folder / name) == 0o600
    assert mode(folder / "pg") == 0o700
    assert password not in (folder / "server.json").read_text()
    assert password not in (folder / "postgres.log").read_text()
    assert password not in Path(f"/proc/{postgres.pid}/cmdline").read_text()
    assert password not in repr(postgres) + repr(find_running(folder))


def test_the_server_does_not_inherit_our_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_SECRET_KEY", "for us alone")
    monkeypatch.setenv("PGDATA", "/nowhere")
    with embedded(folder) as server:
        environ = Path(f"/proc/{server.pid}/environ").read_text()
    assert "for us alone" not in environ
    assert "PGDATA=/nowhere" not in environ


def test_the_server_is_durable_unless_set_otherwise(folder: Path) -> None:
    with (
        EmbeddedServer(folder, clock=SystemClock()) as server,
        psycopg.connect(server.dsn("postgres")) as conn,
    ):
        for name in ("fsync", "full_page_writes", "synchronous_commit"):
            assert conn.execute(f"SHOW {name}").fetchone() == ("on",)


def test_the_error_for_a_second_owner_names_who_holds_the_folder(folder: Path) -> None:
    with embedded(folder), pytest.raises(ConfigError) as caught:
        embedded(folder).start()
    assert str(caught.value) == (
        f"{folder} is in use by another Headway (pid {os.getpid()});"
        " stop it or set HEADWAY_DATA_DIR"
    )


def test_two_owners_at_once_get_one_server(folder: Path) -> None:
    with other_owner(folder) as (owner, _), pytest.raises(ConfigError) as caught:
        embedded(folder).start()
    assert f"(pid {owner.pid})" in str(caught.value)


@pytest.mark.parametrize("drop", (None, pytest.param("nobody", marks=AS_ROOT)))
def test_a_killed_owner_takes_its_server_along_cleanly(
    folder: Path, drop: launch.Drop | None
) -> None:
    with other_owner(folder, drop) as (owner, pid):
        owner.kill()
        owner.wait()
        await_end(pid)
    assert not (folder / "pg" / "postmaster.pid").exists()


def test_a_start_right_after_the_owner_was_killed_finds_everything(folder: Path) -> None:
    with other_owner(folder) as (owner, _):
        running = find_running(folder)
        assert running is not None
        write_rows(running.dsn("postgres"), 5)
        owner.kill()
        owner.wait()
        # The old server may still be shutting down.
        with embedded(folder) as server:
            assert row_count(server.dsn("postgres")) == 5
    assert "was not properly shut down" not in (folder / "postgres.log").read_text()


def test_a_killed_server_recovers_what_was_committed(folder: Path) -> None:
    server = EmbeddedServer(folder, clock=SystemClock(), settings={"fsync": "off"})
    server.start()
    write_rows(server.dsn("postgres"), 7)
    os.kill(server.pid, signal.SIGKILL)
    await_end(server.pid)
    server.stop()
    assert (folder / "pg" / "postmaster.pid").exists()
    with server:
        assert row_count(server.dsn("postgres")) == 7


def test_a_stale_record_naming_a_stranger_does_not_block_the_start(folder: Path) -> None:
    server = embedded(folder)
    server.start()
    os.kill(server.pid, signal.SIGKILL)
    await_end(server.pid)
    server.stop()
    record = folder / "pg" / "postmaster.pid"
    lines = record.read_text().split("\n")
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            record.write_text("\n".join([str(stranger.pid), *lines[1:]]))
            with server:
                assert stranger.poll() is None
        finally:
            stranger.kill()


def test_an_immediate_stop_is_like_a_power_cut_and_is_survived(folder: Path) -> None:
    server = EmbeddedServer(folder, clock=SystemClock(), settings={"fsync": "off"})
    server.start()
    write_rows(server.dsn("postgres"), 2)
    server.stop(immediate=True)
    with server:
        assert row_count(server.dsn("postgres")) == 2
    assert "was not properly shut down" in (folder / "postgres.log").read_text()


def test_ctrl_c_at_the_terminal_reaches_the_owner_but_not_the_server(folder: Path) -> None:
    with embedded(folder) as server:
        assert os.getpgid(server.pid) != os.getpgid(0)


def test_stopping_twice_or_before_a_start_does_nothing(folder: Path) -> None:
    server = embedded(folder)
    server.stop()
    with server:
        server.stop()


def test_an_initialisation_killed_halfway_is_done_again(tmp_path: Path) -> None:
    half = tmp_path / "pg.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    (half / "base").mkdir()
    with embedded(tmp_path) as server:
        write_rows(server.dsn("postgres"), 1)
    assert not half.exists()


def test_another_process_can_join_by_the_note_while_the_owner_lives(folder: Path) -> None:
    assert find_running(folder) is None
    assert find_running(folder / "nowhere") is None
    with embedded(folder) as server:
        server.announce({"database": "demo", "speed": 60})
        code = (
            "import sys; from pathlib import Path;"
            "from headway.store.server.embedded import find_running;"
            "import psycopg; found = find_running(Path(sys.argv[1]));"
            "psycopg.connect(found.dsn('postgres')).close(); print(found.note['speed'], found.pid)"
        )
        joined = subprocess.run(
            [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
        )
        assert joined.stdout.split() == ["60", str(server.pid)]
        running = find_running(folder)
        assert running is not None
        assert running.started_at == START
        assert running.dsn("demo") == server.dsn("demo")
    assert find_running(folder) is None


def test_the_note_of_a_dead_owner_is_not_believed(folder: Path) -> None:
    with other_owner(folder) as (owner, pid):
        assert find_running(folder) is not None
        owner.kill()
        owner.wait()
        assert (folder / "server.json").exists()
        assert find_running(folder) is None
        await_end(pid)


def test_looking_for_a_server_never_stops_another_from_starting(folder: Path) -> None:
    looking = os.open(folder / "lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    looked = threading.Timer(0.1, os.close, (looking,))
    looked.start()
    with embedded(folder) as server:
        assert server.pid
    looked.join()


@pytest.mark.parametrize("place", ("file", "under-a-file", "forbidden"))
def test_a_useless_folder_is_refused_in_one_line(tmp_path: Path, place: str) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    folder = {
        "file": file, "under-a-file": file / "data", "forbidden": Path("/proc/headway")
    }[place]  # fmt: skip
    with pytest.raises(ConfigError, match="set HEADWAY_DATA_DIR to a folder") as caught:
        embedded(folder).start()
    assert str(caught.value).startswith(f"cannot keep the embedded database in {folder}: ")
    assert "\n" not in str(caught.value)
    assert file.read_text() == "mine"


def test_a_full_disk_is_named_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    code = textwrap.dedent(OWNER).format(fast=FAST, drop=None)
    script = 'mount -t tmpfs -o size=8m none "$1" && "$2" -c "$3" "$1"; echo $?; ls "$1"'
    command = ["unshare", "-Urm", "sh", "-c", script, "sh", str(tmp_path), sys.executable, code]
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a mount of its own, which this host forbids")
    done = subprocess.run(command, capture_output=True, text=True, check=True, input="")
    assert done.stdout.split() == ["1", "lock", "password"]
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr
    assert "set HEADWAY_DATA_DIR" in done.stderr


def test_a_lost_password_is_explained_and_nothing_is_overwritten(folder: Path) -> None:
    with embedded(folder) as server:
        write_rows(server.dsn("postgres"), 1)
    kept = (folder / "password").rename(folder / "elsewhere")
    with pytest.raises(ConfigError, match=r"password is gone .* put it back"):
        embedded(folder).start()
    (folder / "password").write_text("wrong")
    with pytest.raises(ConfigError, match=r"refuses the connection: .*authentication failed"):
        embedded(folder).start()
    kept.replace(folder / "password")
    with embedded(folder) as server:
        assert row_count(server.dsn("postgres")) == 1


def test_a_server_that_refuses_to_start_says_why_and_frees_the_folder(folder: Path) -> None:
    bad = EmbeddedServer(folder, clock=SystemClock(), settings=FAST | {"shared_buffers": "lots"})
    with pytest.raises(
        ConfigError, match=r"did not start: invalid value .*shared_buffers"
    ) as error:
        bad.start()
    assert "\n" not in str(error.value)
    with embedded(folder) as server:
        assert server.pid


def test_a_database_of_an_absent_version_is_refused_not_overwritten(folder: Path) -> None:
    with embedded(folder):
        pass
    (folder / "pg" / "PG_VERSION").write_text("9\n")
    with pytest.raises(ConfigError, match="made by PostgreSQL 9, which is not installed"):
        embedded(folder).start()
    assert (folder / "pg" / "base").exists()


def test_the_newest_programs_of_the_wheel_come_first() -> None:
    newest = launch.find_programs()
    assert launch.WHEEL in newest.folder.parts
    assert newest.major == max(
        programs.major for programs in map(launch.find_programs, (newest.major, newest.major - 2))
    )
    assert launch.find_programs(newest.major - 2).major == newest.major - 2


@AS_ROOT
def test_root_in_a_namespace_needs_no_chown_even_under_a_private_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with embedded(home / "data", "namespace") as server:
        write_rows(server.dsn("postgres"), 1)
        owners = {path.stat().st_uid for path in home.rglob("*")}
        status = Path(f"/proc/{server.pid}/status").read_text()
    assert owners == {0}
    assert mode(home) == 0o700
    assert "CapEff:\t0000000000000000" in status


@AS_ROOT
def test_root_without_namespaces_runs_the_server_as_nobody(open_folder: Path) -> None:
    with embedded(open_folder, "nobody") as server:
        write_rows(server.dsn("postgres"), 1)
        assert Path(f"/proc/{server.pid}").stat().st_uid == (open_folder / "pg").stat().st_uid > 0
    assert mode(open_folder / "password") == 0o600
    # Namespaces may become allowed, and forbidden again.
    for drop in ("namespace", "nobody"):
        with embedded(open_folder, drop) as server:
            assert row_count(server.dsn("postgres")) == 1


@AS_ROOT
def test_a_killed_server_of_nobody_starts_again(open_folder: Path) -> None:
    server = embedded(open_folder, "nobody")
    with server:
        os.kill(server.pid, signal.SIGKILL)
        await_end(server.pid)
    with server:
        assert server.pid


@AS_ROOT
def test_programs_that_nobody_cannot_reach_are_copied_with_their_libraries(
    open_folder: Path, tmp_path: Path
) -> None:
    site = tmp_path / "private" / "site"
    site.parent.mkdir(mode=0o700)
    places = os.pathsep.join([str(site), *sys.path])
    hidden = launch.copy_programs(launch.find_programs(), site)
    (site / launch.WHEEL / "__init__.py").touch()
    assert not launch.can_reach(hidden.path("postgres"), "nobody")
    for _ in range(2):
        with other_owner(open_folder, "nobody", PYTHONPATH=places) as (_, pid):
            program = Path(f"/proc/{pid}/exe").readlink()
            assert program.is_relative_to(open_folder / "programs" / launch.WHEEL)
            running = find_running(open_folder)
            assert running is not None
            write_rows(running.dsn("postgres"), 1)


@AS_ROOT
def test_a_folder_that_nobody_cannot_enter_is_refused_with_advice(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with pytest.raises(ConfigError, match=r"nobody cannot enter .* or run as another user"):
        embedded(home / "data", "nobody").start()
    assert not (home / "data" / "pg").exists()


@AS_ROOT
def test_root_prefers_the_namespace_where_it_is_allowed() -> None:
    allowed = subprocess.run(["unshare", "-U", "true"], capture_output=True, check=False)
    assert launch.choose_drop() == ("nobody" if allowed.returncode else "namespace")


def test_the_server_record_is_one_json_object(postgres: EmbeddedServer) -> None:
    facts = json.loads((postgres.data_dir / "server.json").read_text())
    assert facts.keys() == {"pid", "port", "started_at", "note"}


def test_a_pool_finds_its_server_again_after_a_restart(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "pg", clock=SystemClock(), settings=FAST) as server:
        server.ensure_database("x")
        address = server.dsn("x")
        with open_pool(address) as pool:
            server.stop(immediate=True)
            server.start()
            assert server.dsn("x") == address
            with suppress(StoreError), guarded(), pool.connection() as broken:
                broken.execute("SELECT 1")
            with guarded(), pool.connection() as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
