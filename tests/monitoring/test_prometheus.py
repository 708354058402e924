"""A real Prometheus scrapes `/metrics`, and a real Alertmanager sends the alerts."""

import queue
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from psycopg_pool import ConnectionPool
from tests.lab.demo.test_command import QUICK, started
from tests.monitoring.prometheus import Programs
from tests.monitoring.prometheus_server import PrometheusServer
from tests.operations.sample import SampleDeployment, create_sample

from headway.core.access import AccessGrant, Role
from headway.core.monitoring.rules import RULES
from headway.observe.prometheus_rules import alert_name
from headway.operations import changes
from headway.store.access.keys import ApiKeys
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.virtual_clock import VirtualClock

WITHIN_S = 30.0
HELD_RULE = {"alert": "ChangesHeld", "expr": "max(headway_changes_held) > 0"}


def next_alert(notifications: queue.Queue[dict[str, Any]]) -> tuple[str, str]:
    """Return the state and the name of the next alert."""
    (alert,) = notifications.get(timeout=WITHIN_S)["alerts"]
    return alert["status"], alert["labels"]["alertname"]


@pytest.fixture
def sample(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> SampleDeployment:
    return create_sample(pool, clock, tmp_path / "sample")


@pytest.fixture
def target_address(sample: SampleDeployment) -> Iterator[str]:
    listener = listen("127.0.0.1", 0)
    server = SiteServer(create(sample.app, real_time=sample.clock), listener)
    server.start()
    yield urlsplit(address(listener)).netloc
    server.stop()


def test_an_alert_fires_while_changes_are_held_and_the_exported_rules_are_loaded(
    programs: Programs, sample: SampleDeployment, target_address: str, tmp_path: Path
) -> None:
    grant = AccessGrant(name="prometheus", role=Role.READER)
    _, key = ApiKeys(sample.app.pool).add_key(grant, now=sample.clock.now())
    with PrometheusServer(
        programs, tmp_path, target=target_address, rule=HELD_RULE, key=key
    ) as prometheus:
        assert next_alert(prometheus.notifications) == ("firing", "ChangesHeld")
        for held in changes.held(sample.operator, limit=10).items:
            versions = {held.sku: held.version}
            body = changes.Decision(skus=[held.sku], seller=held.seller, versions=versions)
            changes.reject(sample.operator, body)
        assert next_alert(prometheus.notifications) == ("resolved", "ChangesHeld")
        exported = prometheus.rules()["headway"]
    assert exported.keys() == {alert_name(rule.name) for rule in RULES}
    # A rule with an unknown metric would still be loaded; an invalid one would not.
    assert not any(rule.get("lastError") for rule in exported.values())
    assert {rule["type"] for rule in exported.values()} == {"alerting"}


@pytest.mark.campaign
def test_an_alert_of_the_demo_arrives(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text("HEADWAY_METRICS_OPEN = true\n")
    rule = {"alert": "Fresh", "expr": 'max(headway_listings{state="fresh"}) > 0'}
    with started(tmp_path, *QUICK) as demo:
        page = demo.read_until("The page: ").split("The page: ")[1]
        (tmp_path / "prometheus").mkdir()
        target = urlsplit(page).netloc
        with PrometheusServer(
            programs, tmp_path / "prometheus", target=target, rule=rule
        ) as prometheus:
            assert next_alert(prometheus.notifications) == ("firing", "Fresh")
        assert demo.end(signal.SIGINT)[0] == 0
