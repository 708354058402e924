"""Law L9: no write reaches a shop that nobody has started, whatever happens to it meanwhile."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.rehearsal_setup import SELLER, caller, open_merchant_shop, report
from tests.engine.shop_setup import PLACES, Shops, make_shops, wanted

from headway.clock import fresh_id, rng
from headway.core.catalog.intake import handle_of
from headway.core.catalog.listings import Wait
from headway.core.catalog.push_planning import next_push_batch
from headway.core.catalog.storefront import Intent, WriteKind
from headway.operations.rehearsals import StartBody, read_again, start
from headway_lab.simulators.shopify.faults import ShopFaultPlan
from headway_lab.virtual_clock import VirtualClock

LISTINGS = 40
STEPS = 150
SLEEPS_S = (0, 1, 30, 600, 7 * 3600)


@pytest.fixture
def shops(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Shops:
    faults = ShopFaultPlan(3, rates={"error": 0.05, "throttle": 0.05})
    return make_shops(
        pool, clock, tmp_path, rehearses=True, faults=faults, bulk_from=5, drift_check_h=1
    )


def disturb(shops: Shops, chance: object, number: int) -> None:
    """Let the supplier, the merchant, a customer or an operator do something."""
    sku, domain = f"P-{chance.randrange(LISTINGS):04}", shops.domain(SELLER)  # type: ignore[attr-defined]
    view = shops.simulator.shown(domain, sku)
    deed = number % 5
    if deed == 0:
        shops.want(sku, wanted(f"{10 + number}.00", number % 7, number % 3))
    elif deed == 1 and view is not None:
        shops.simulator.edit_price(domain, sku, view.price + Decimal("0.50"))
    elif deed == 2 and view is not None and view.quantities.get(PLACES[0]):
        shops.simulator.sell(domain, sku, PLACES[0])
    elif deed == 3 and view is not None:
        shops.simulator.renumber(domain, sku)
    else:
        read_again(caller(shops), SELLER)


def test_no_write_reaches_a_shop_before_a_person_has_started_it(shops: Shops) -> None:
    chance = rng("rehearsal")
    open_merchant_shop(shops, LISTINGS, 7)
    pushes = [shops.push("one"), shops.push("two")]
    for number in range(STEPS):
        if number % 3 == 0:
            disturb(shops, chance, number)
        result = chance.choice(pushes).step()
        if isinstance(result, Wait):
            shops.clock.sleep((result.until - shops.clock.now()).total_seconds())
        shops.clock.sleep(chance.choice(SLEEPS_S))
        assert shops.simulator.effects == [], f"written after {number} steps"
    assert shops.one("SELECT count(*) FROM push_intent") == 0
    read_again(caller(shops), SELLER)
    shops.drive(pushes[0])
    start(caller(shops), SELLER, StartBody(version=report(shops).version))
    shops.drive(pushes[0])
    assert shops.simulator.effects, "a shop that was started is written"


def test_the_plan_of_a_shop_in_rehearsal_holds_no_write(shops: Shops) -> None:
    open_merchant_shop(shops, LISTINGS, 8)
    shops.drive(shops.push())
    read_again(caller(shops), SELLER)
    shops.ask("UPDATE connected_accounts SET locations_at = %s", shops.clock.now())
    now = shops.clock.now()
    shop = shops.app.pushes.due_shops(now, verified_before=None, limit=1)[0]
    lease = shops.app.pushes.claim(
        shop, now=now, owner="w", lease_until=now, verified_before=None, limit=300
    )
    assert lease is not None
    assert lease.shop.is_in_rehearsal
    seen = [change for change in lease.changes if change.applied is not None]
    started = replace(lease, shop=replace(lease.shop, is_in_rehearsal=False), changes=seen)
    for count in range(1, len(lease.changes) + 1):
        batch = next_push_batch(replace(lease, changes=lease.changes[:count]), handle=handle_of)
        assert batch is None or not batch.writes
    batch = next_push_batch(started, handle=handle_of)
    assert batch is not None
    assert batch.writes, "without the rehearsal it would write"


@pytest.mark.parametrize("kind", (WriteKind.PRICE, WriteKind.BULK))
def test_an_intent_for_a_shop_in_rehearsal_is_refused_by_the_database(
    shops: Shops, kind: WriteKind
) -> None:
    now = shops.clock.now()
    shop = shops.app.pushes.due_shops(now, verified_before=None, limit=1)[0]
    lease = shops.app.pushes.claim(
        shop, now=now, owner="w", lease_until=now, verified_before=None, limit=1
    )
    assert lease is not None
    intent = Intent(id=fresh_id(rng("intent")), kind=kind, skus=["A-1"])
    if kind is WriteKind.BULK:
        bulk = shops.push()._bulk
        assert bulk is not None
        is_stored = bulk.bulks.intend(lease, intent, asleep=[], until=now, now=now)
    else:
        is_stored = shops.app.pushes.intend(lease, intent, now=now)
    assert not is_stored
    assert shops.one("SELECT count(*) FROM push_intent") == 0
