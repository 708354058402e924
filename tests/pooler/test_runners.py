"""The runners' conformance through a pgbouncer in transaction mode, and stores that many share."""

import pytest
from tests.scale.conftest import celery_group, deployment, make_runner, valkey
from tests.scale.test_conformance import (
    test_everything_due_is_fetched_pushed_and_pulled_within_every_limit,
)
from tests.store.access.test_isolation import (
    test_nothing_is_left_on_the_connection_as_a_pooler_wants_it,
)
from tests.store.limits.test_limiter import test_many_threads_at_one_key_lose_no_update

# A pooler serves many processes; the embedded runner is tested with it in a campaign.
RUNNERS = (pytest.param("embedded", marks=pytest.mark.campaign), "celery")
runner = pytest.fixture(make_runner, params=RUNNERS, name="runner")

__all__ = [
    "celery_group",
    "deployment",
    "runner",
    "test_everything_due_is_fetched_pushed_and_pulled_within_every_limit",
    "test_many_threads_at_one_key_lose_no_update",
    "test_nothing_is_left_on_the_connection_as_a_pooler_wants_it",
    "valkey",
]
