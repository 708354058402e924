"""What the benchmarks stand on: a scratch folder, PostgreSQL, Valkey; none outlives the run."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from headway.clock import SystemClock
from headway.runners.valkey import EmbeddedValkey
from headway.store.migrate import upgrade
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer

CLOCK = SystemClock()
PREFIX = "headway-bench-"


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


def machine() -> list[tuple[str, str]]:
    """Name what the figures depend on."""
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    load = " ".join(f"{figure:.1f}" for figure in os.getloadavg())
    return [
        ("date", f"{CLOCK.now():%Y-%m-%d %H:%M} UTC"),
        ("machine", f"{os.cpu_count()} cores, {memory_gb:.0f} GB, {_processor()}"),
        ("system", f"{platform.system()} {platform.release()}, Python {platform.python_version()}"),
        ("load before", f"{load} (1, 5, 15 min)"),
    ]


def version(server: EmbeddedServer) -> str:
    """Return the server's version and the settings that matter here."""
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


def valkey_version(server: EmbeddedValkey) -> str:
    """Return the version of a server that keeps no data."""
    with server.client() as client:
        info = client.info("server")
    number = info.get("valkey_version") or info["redis_version"]
    return f"Valkey {number}, no persistence, loopback TCP"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
