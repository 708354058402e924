"""A recording is made of ordinary reads within the limits, and holds no secret and no buyer."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.refusal_setup import APP, STATIC, Platforms, make_platforms

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import MAIN, SellerId, Sku
from headway.core.pauses import Pause, PauseKind
from headway.errors import ConflictError
from headway.operations.callers import operator
from headway.operations.probe import ProbeBody
from headway.operations.recordings import RecordBody, Recording, record_shop, record_supplier
from headway.providers.recordings import read_line
from headway.providers.registry import BUILT_IN
from headway.providers.replay import replay
from headway_lab.platforms import ETSY, PLATFORMS, PRINTIFY, SHOPIFY
from headway_lab.simulators.edge import json_error
from headway_lab.virtual_clock import VirtualClock

SELLER = SellerId("s1")
SKUS = [Sku("P1=K3"), Sku("P2=K3"), Sku("NOSUCH")]


@pytest.fixture
def platforms(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Platforms:
    return make_platforms(pool, clock, tmp_path)


def record(platforms: Platforms, platform: PlatformName, pages: int = 2) -> Recording:
    body = RecordBody(seller=SELLER, platform=platform, pages=pages)
    return record_shop(operator(platforms.app, "ann"), body)


def check_readable(recording: Recording, settings: Any) -> dict[str, int]:
    """Check that everything recorded is read; return the number of rows by kind."""
    rows: dict[str, int] = {}
    for reply in [read_line(line.encode()) for line in recording.lines]:
        understood = replay(BUILT_IN[reply.provider], reply, settings)
        assert understood.is_read, understood
        for name, count in understood.rows.items():
            rows[name] = rows.get(name, 0) + count
    return rows


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_shop_is_recorded_by_reads_that_pass_its_limits(
    platforms: Platforms, platform: PlatformName
) -> None:
    shop = platforms.connect(platform, SELLER)
    platforms.clock.sleep(3600)
    before = platforms.ask("SELECT * FROM sync_jobs ORDER BY id")
    recording = record(platforms, platform)
    assert recording.problems == ()
    assert platforms.ask("SELECT * FROM sync_jobs ORDER BY id") == before
    calls = platforms.one("SELECT count(*) FROM call_ledger WHERE purpose = 'record'")
    assert calls >= len(recording.lines) > 0
    text = "\n".join(recording.lines)
    assert shop not in text.replace('"shop": "1"', "")
    assert STATIC not in text
    assert APP.client_id not in text
    rows = check_readable(recording, platforms.app.settings)
    if platform != SHOPIFY:  # whose simulated shop has no orders
        assert rows["orders"] > 0


def test_a_recording_stops_at_the_quota_of_the_day(platforms: Platforms) -> None:
    platforms.connect(ETSY, SELLER)
    key = f"etsy:{platforms.app.settings.etsy_keystring}"
    limiter = platforms.app.limiter
    all_but_one = limiter.left_of(key) - 1
    wait: dict[str, Any] = {"max_wait_s": 0, "lease_s": 3600, "grace_s": 3600}
    limiter.reserve([key], cost=all_but_one, owner="others", **wait, begins=True)
    recording = record(platforms, ETSY, pages=2)
    assert len(recording.lines) == 1
    assert "the limit allows no call" in recording.problems[0]


def test_a_refused_token_request_is_recorded_and_a_granted_one_is_not(
    platforms: Platforms,
) -> None:
    platforms.connect(ETSY, SELLER)
    platforms.clock.sleep(timedelta(hours=2).total_seconds())  # the access token has expired
    recording = record(platforms, ETSY, pages=1)
    whats = {read_line(line.encode()).request.what for line in recording.lines}
    assert "token" not in whats
    platforms.clock.sleep(timedelta(hours=2).total_seconds())
    platforms.edges[ETSY].reply = json_error(400, "Xanthippe has no access")
    recording = record(platforms, ETSY, pages=1)
    (line, *_) = recording.lines
    assert read_line(line.encode()).request.what == "token"
    assert "Xanthippe" not in line
    assert recording.problems


def test_a_pause_refuses_a_recording(platforms: Platforms) -> None:
    platforms.connect(PRINTIFY, SELLER)
    now = platforms.clock.now()
    platforms.app.pauses.pause(Pause(kind=PauseKind.SELLER, seller=SELLER, since=now), now)
    with pytest.raises(ConflictError, match="resume"):
        record(platforms, PRINTIFY)
    assert platforms.one("SELECT count(*) FROM call_ledger") == 0


def test_a_supplier_is_recorded_by_one_call_of_the_ledger(rig: Any) -> None:
    rig.add(*SKUS[:2])
    caller = operator(rig.app, "ann")
    recording = record_supplier(caller, MAIN, ProbeBody(skus=SKUS))
    assert recording.problems == ()
    (line,) = recording.lines
    assert "P1=K3" not in line
    assert rig.app.settings.boeing_client_id not in line
    assert check_readable(recording, rig.app.settings) == {"quotes": 2, "not there": 1}
    calls = "SELECT skus FROM call_ledger WHERE purpose = 'record' AND result = 'ok'"
    assert rig.ask(calls) == [(SKUS,)]
    assert rig.supplier.max_calls_in_window <= 2
