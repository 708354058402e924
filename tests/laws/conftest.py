"""Connections as `headway simulate` opens them: a run repeats few statements thousands of times."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from psycopg_pool import ConnectionPool

from headway.store.pool import SoloPool, open_pool


@pytest.fixture
def pool(database: str) -> Iterator[SoloPool]:
    """Yield connections for one thread, as a simulation is."""
    with closing(SoloPool(database)) as opened:
        yield opened


@pytest.fixture
def shared_pool(database: str) -> Iterator[ConnectionPool]:
    """Yield connections for several threads."""
    with open_pool(database) as opened:
        yield opened
