"""Fixtures for all tests: a real PostgreSQL, a fresh database per test, and a virtual clock."""

import itertools
import os
import shutil
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.store.migrate import upgrade
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway_lab.virtual_clock import VirtualClock

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
START = datetime(2026, 1, 1, tzinfo=UTC)
TEMPLATE = "headway_template"
# How long a test waits for a reply of a server that it started. It only bounds a hang: on a busy
# machine a reply takes longer than the 5 s that httpx waits by default.
HTTP_TIMEOUT_S = 60
# For clients that only ever speak plain HTTP to this machine: reading the trusted roots takes a
# client 20 ms.
NO_ROOTS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
numbers = itertools.count(1)
# Files that take long start first, lest one of them run alone at the end; those that mostly wait
# for real processes stand between those that need a processor, so that they overlap.
LONG = (
    "scale/test_storm.py",
    "scale/test_conformance.py",
    "laws/test_simulated_days.py",
    "scale/test_celery.py",
    "laws/test_catalog_laws.py",
    "scale/test_hard_days.py",
    "lab/demo/test_command.py",
    "lab/demo/test_world.py",
    "cli/test_first_shop.py",
    "engine/test_adopted_shop.py",
    "cli/test_tutorials.py",
    "engine/test_bulk_faults.py",
    "laws/test_policy_days.py",
    "browser/test_acting.py",
    "scale/test_webhook_flood.py",
    "laws/test_shop_laws.py",
    "laws/test_operator_worlds.py",
    "scale/test_demo_scaled.py",
    "browser/test_watching.py",
    "lab/simulation/test_scenario.py",
    "browser/test_accessibility.py",
    "cli/test_remote_runs_client.py",
    "laws/test_limit_storm.py",
    "pooler/test_runners.py",
    "laws/test_account_days.py",
    "browser/test_paging.py",
    "cli/test_errors.py",
    "scale/test_upgrade.py",
    "engine/test_fetch.py",
    "lab/simulation/test_compare.py",
    "browser/test_keyboard.py",
    "cli/test_run.py",
    "laws/test_alerts.py",
    "web/test_role_table.py",
    "web/test_contract.py",
    "laws/test_explain_forecasts.py",
    "laws/test_account_blast_radius.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the long files first, and keep the order of the others."""
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(LONG)))


def memory_folder() -> Path:
    """Return the folder of the test databases: in memory if possible."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def sweep_dead_folders(prefix: str) -> None:
    """Remove the folders of runs that were killed."""
    for folder in memory_folder().glob(f"{prefix}*"):
        try:
            os.kill(int(folder.name.removeprefix(prefix).partition("-")[0]), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (PermissionError, ValueError):
            continue


class QuickServer(EmbeddedServer):
    """A server for thousands of small databases, created and dropped by one connection."""

    administrator: psycopg.Connection | None = None

    @contextmanager
    def _administration(self) -> Iterator[psycopg.Connection]:
        if self.administrator is None:
            self.administrator = psycopg.connect(self.dsn("postgres"), autocommit=True)
        yield self.administrator

    def stop(self, *, immediate: bool = False) -> None:
        if self.administrator is not None:
            self.administrator.close()
        super().stop(immediate=immediate)

    def trust(self) -> None:
        """Make a login cost one round of hashing instead of thousands."""
        password = sql.Literal(conninfo_to_dict(self.dsn())["password"])
        with self._administration() as connection:
            if connection.info.server_version >= 160_000:
                connection.execute("SET scram_iterations = 1")
                connection.execute(sql.SQL("ALTER ROLE CURRENT_USER PASSWORD {}").format(password))


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedServer]:
    prefix = f"headway-tests-{os.geteuid()}-"
    sweep_dead_folders(prefix)
    folder = memory_folder() / f"{prefix}{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with QuickServer(folder, clock=SystemClock(), settings=FAST) as server:
            server.trust()
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
