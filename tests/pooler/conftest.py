"""Fixtures for tests through a pgbouncer in transaction mode; `database` is an address of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import fresh_database
from tests.machine import Machine
from tests.pooler.bouncer import Bouncer
from tests.pooler.pgbouncer import NONE, find

from headway.store.server.embedded import EmbeddedServer


@pytest.fixture(scope="session")
def pgbouncer() -> str:
    machine = Machine()
    path = find(machine)
    if path is None:
        machine.lacks(NONE)
    return path


def beside(postgres: EmbeddedServer, name: str) -> Path:
    """Return a folder that whoever runs the server can reach, even where root becomes nobody."""
    return postgres.data_dir.with_name(f"{postgres.data_dir.name}-{name}")


@pytest.fixture(scope="session")
def bouncer(pgbouncer: str, postgres: EmbeddedServer) -> Iterator[Bouncer]:
    with Bouncer(pgbouncer, beside(postgres, "bouncer"), postgres.dsn("postgres")) as opened:
        yield opened


@pytest.fixture
def direct(postgres: EmbeddedServer) -> Iterator[str]:
    with fresh_database(postgres) as dsn:
        yield dsn


@pytest.fixture
def database(direct: str, bouncer: Bouncer) -> str:
    return bouncer.before(direct)
