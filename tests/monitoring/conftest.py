"""Fixtures for tests with a real Prometheus."""

import pytest
from tests.machine import Machine
from tests.monitoring.prometheus import NONE, Programs, find


@pytest.fixture(scope="session")
def programs() -> Programs:
    machine = Machine()
    paths = find(machine)
    if paths is None:
        machine.skip(NONE)
    return paths
