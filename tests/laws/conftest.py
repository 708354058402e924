"""Connections as `headway simulate` opens them: a run repeats few statements thousands of times."""

from collections.abc import Iterator

import pytest
from psycopg_pool import ConnectionPool

from headway.store.pool import open_pool


@pytest.fixture
def pool(database: str) -> Iterator[ConnectionPool]:
    with open_pool(database, prepares=True) as opened:
        yield opened
