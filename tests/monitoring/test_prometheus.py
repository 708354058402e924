"""A real Prometheus reads `/metrics`, and a real Alertmanager tells somebody what is wrong."""

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
from tests.monitoring.prometheus_server import Tower
from tests.operations.room import ACME, BEST, HELD, THEIRS, Room, furnish

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


def next_word(news: queue.Queue[dict[str, Any]]) -> tuple[str, str]:
    """Return the state and the name of the next alert."""
    (alert,) = news.get(timeout=WITHIN_S)["alerts"]
    return alert["status"], alert["labels"]["alertname"]


@pytest.fixture
def room(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Room:
    return furnish(pool, clock, tmp_path / "room")


@pytest.fixture
def served(room: Room) -> Iterator[str]:
    taken = listen("127.0.0.1", 0)
    serving = SiteServer(create(room.app, wall=room.clock), taken)
    serving.start()
    yield urlsplit(address(taken)).netloc
    serving.stop()


def test_an_alert_fires_while_changes_are_held_and_all_our_rules_are_loaded_beside_it(
    programs: Programs, room: Room, served: str, tmp_path: Path
) -> None:
    grant = AccessGrant(name="prometheus", role=Role.READER)
    _, key = ApiKeys(room.app.pool).add_key(grant, now=room.clock.now())
    with Tower(programs, tmp_path, target=served, rule=HELD_RULE, key=key) as tower:
        assert next_word(tower.news) == ("firing", "ChangesHeld")
        for sku, seller in ((HELD, ACME), (THEIRS, BEST)):
            changes.reject(room.operator, changes.Decision(skus=[sku], seller=seller))
        assert next_word(tower.news) == ("resolved", "ChangesHeld")
        ours = tower.rules()["headway"]
    assert ours.keys() == {alert_name(rule.name) for rule in RULES}
    # A rule that names a figure wrongly would still be loaded; one that cannot be read would not.
    assert not any(rule.get("lastError") for rule in ours.values())
    assert {rule["type"] for rule in ours.values()} == {"alerting"}


@pytest.mark.campaign
def test_the_demo_is_scraped_and_an_alert_of_it_arrives(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text("HEADWAY_METRICS_OPEN = true\n")
    rule = {"alert": "Fresh", "expr": 'max(headway_listings{state="fresh"}) > 0'}
    with started(tmp_path, *QUICK) as demo:
        page = demo.read_until("The page: ").split("The page: ")[1]
        (tmp_path / "tower").mkdir()
        target = urlsplit(page).netloc
        with Tower(programs, tmp_path / "tower", target=target, rule=rule) as tower:
            assert next_word(tower.news) == ("firing", "Fresh")
        assert demo.end(signal.SIGINT)[0] == 0
