"""Fixtures for all tests: a real PostgreSQL, a fresh database per test, and a clock that obeys."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock, VirtualClock
from headway.store.migrate import upgrade
from headway.store.pool import open_pool
from headway.store.server import EmbeddedServer

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
START = datetime(2026, 1, 1, tzinfo=UTC)
TEMPLATE = "headway_template"
numbers = itertools.count(1)


def memory_folder() -> Path:
    """Where the test databases live: in memory if there is such a place."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def sweep_dead_folders(prefix: str) -> None:
    """Remove what a run that was killed could not."""
    for folder in memory_folder().glob(f"{prefix}*"):
        try:
            os.kill(int(folder.name.removeprefix(prefix).partition("-")[0]), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (PermissionError, ValueError):
            continue


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedServer]:
    prefix = f"headway-tests-{os.geteuid()}-"
    sweep_dead_folders(prefix)
    folder = memory_folder() / f"{prefix}{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with EmbeddedServer(folder, clock=SystemClock(), settings=FAST) as server:
            server.ensure_database(TEMPLATE)
            with open_pool(server.dsn(TEMPLATE), size=1) as pool:
                upgrade(pool, SystemClock())
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def fresh_database(postgres: EmbeddedServer) -> Iterator[str]:
    """Yield the address of a fresh, migrated database."""
    name = f"test_{next(numbers)}"
    postgres.ensure_database(name, template=TEMPLATE)
    yield postgres.dsn(name)
    postgres.drop_database(name)


@pytest.fixture
def database(postgres: EmbeddedServer) -> Iterator[str]:
    with fresh_database(postgres) as dsn:
        yield dsn


@pytest.fixture
def pool(database: str) -> Iterator[ConnectionPool]:
    with open_pool(database) as opened:
        yield opened


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)
