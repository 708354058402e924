"""Fixtures for tests with a real Prometheus."""

import pytest
from tests.browser.chromium import Machine
from tests.watch.prometheus import NONE, Programs, find


@pytest.fixture(scope="session")
def programs() -> Programs:
    machine = Machine()
    found = find(machine)
    if found is None:
        (pytest.fail if machine.is_ci else pytest.skip)(NONE)
    return found
