"""The sample deployment that the tests of operations use."""

from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.operations.sample import SampleDeployment, create_sample

from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def sample(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> SampleDeployment:
    return create_sample(pool, clock, tmp_path)
