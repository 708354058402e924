"""Fixtures for tests with a real Prometheus."""

import pytest
from tests.machine import Machine
from tests.monitoring.prometheus import NONE, Programs, find


@pytest.fixture(scope="session")
def programs() -> Programs:
    machine = Machine()
    found = find(machine)
    if found is None:
        machine.lacks(NONE)
    return found
