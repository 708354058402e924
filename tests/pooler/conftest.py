"""Fixtures for tests through a pgbouncer in transaction mode; `database` is an address of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import fresh_database
from tests.machine import Machine
from tests.pooler.bouncer import PgBouncer
from tests.pooler.pgbouncer import NONE, find

from headway.store.server.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def pgbouncer() -> str:
    machine = Machine()
    path = find(machine)
    if path is None:
        machine.skip(NONE)
    return path


def sibling_folder(postgres: EmbeddedServer, name: str) -> Path:
    """Return a folder that the server's user can reach, even if root drops its rights."""
    return postgres.data_dir.with_name(f"{postgres.data_dir.name}-{name}")


@pytest.fixture(scope="session")
def bouncer(pgbouncer: str, postgres: EmbeddedServer) -> Iterator[PgBouncer]:
    with PgBouncer(
        pgbouncer, sibling_folder(postgres, "bouncer"), postgres.dsn("postgres")
    ) as opened:
        yield opened


@pytest.fixture
def direct(postgres: EmbeddedServer) -> Iterator[str]:
    with fresh_database(postgres) as dsn:
        yield dsn


@pytest.fixture
def database(direct: str, bouncer: PgBouncer) -> str:
    return bouncer.address_of(direct)
