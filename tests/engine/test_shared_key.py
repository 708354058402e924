"""A credential that something else uses too: two deployments, each with a database of its own."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.conftest import EmbeddedServer, fresh_database

from headway.app import build
from headway.app.monitoring import alert_metrics_now
from headway.core.catalog.listings import SellerId, Sku, Wait
from headway.core.monitoring.rules import current_alerts
from headway.store.pool import open_pool
from headway_lab.simulators.transport import SimTransport

SKUS = [f"P{n}=K3" for n in range(60)]
HOUR = timedelta(hours=1)


def drive(rig: Any, apps: list[Any], *, hours: float) -> None:
    """Let the fetches of several deployments work in turn, each when it wants to."""
    end = rig.clock.now() + hours * HOUR
    queue = [(rig.clock.now(), number, app.fetch(f"w{number}")) for number, app in enumerate(apps)]
    while queue[0][0] < end:
        wakes_at, number, fetch = queue.pop(0)
        rig.clock.sleep(max(0.0, (wakes_at - rig.clock.now()).total_seconds()))
        result = fetch.step()
        wakes_at = result.until if isinstance(result, Wait) else rig.clock.now()
        queue = sorted([*queue, (wakes_at, number, fetch)], key=lambda entry: entry[:2])


def sentences(app: Any) -> list[str]:
    metrics = alert_metrics_now(app, app.clock.now(), pauses=[])
    return [alert.sentence for alert in current_alerts(metrics) if alert.name == "key_shared"]


def test_two_deployments_on_one_credential_notice_each_other_and_share_the_limit(
    make_rig: Any, postgres: EmbeddedServer
) -> None:
    rig = make_rig(policy="adaptive", seat_value_s=0)
    with fresh_database(postgres) as dsn, open_pool(dsn) as pool:
        transport = SimTransport(rig.supplier.handle, rig.clock, seed=2)
        other = build(rig.app.settings, rig.clock, pool, transport=transport)
        apps = [rig.app, replace(other, rule=rig.app.rule)]
        for app in apps:
            keys = [(SellerId("a"), Sku(sku)) for sku in SKUS]
            app.listings.add(keys, policy=app.policy, now=rig.clock.now())
        for sku in SKUS:
            rig.catalog.stock(sku)
        drive(rig, apps, hours=1)
        assert all("another program or another Headway uses" in sentences(app)[0] for app in apps)
        refused, read = rig.supplier.refusals, rig.price_calls()
        drive(rig, apps, hours=1)
        assert rig.supplier.refusals - refused <= 4, "a sign-in may still be one too many"
        assert rig.price_calls() - read > 60, "and most of it is used"


def test_a_credential_that_only_headway_uses_raises_no_alert(make_rig: Any) -> None:
    rig = make_rig(policy="adaptive")
    rig.add(*SKUS[:30])
    drive(rig, [rig.app], hours=1)
    assert rig.supplier.refusals == 0
    assert sentences(rig.app) == []
