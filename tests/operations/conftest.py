"""The small deployment that operations are tried on."""

from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.operations.room import Room, furnish

from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def room(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Room:
    return furnish(pool, clock, tmp_path)
