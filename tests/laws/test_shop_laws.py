"""Each law at the shops is broken on purpose by one wrong push, and the checks detect it."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headway.app import App
from headway.config import Settings
from headway.core.catalog.storefront import Change, PriceWrite, Pushed, PushLease, Shop
from headway.engine.ports import PushesPort
from headway.store.pool import Pool
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.scenario import Parts, Plan, Scenario
from headway_lab.simulation.shops import domain_of
from headway_lab.simulation.violation_log import ViolationLog
from headway_lab.simulation.world import seeded_world

Simulate = Callable[..., Scenario]
# Every part changes a few times before it is read, so nearly every read is pushed.
BUSY: dict[str, Any] = {"products": 120, "days": 0.25, "share_per_day": 30.0}


@pytest.fixture
def simulate(pool: Pool, tmp_path: Path) -> Simulate:
    def run(
        parts: Parts,
        *faults: str,
        sellers: int = 1,
        meet: Callable[[Scenario], None] = lambda _scenario: None,
        **more: Any,
    ) -> Scenario:
        world = seeded_world(seed=1, **{**BUSY, **more})
        plan = Plan(
            world=world,
            days={**BUSY, **more}["days"],
            faults=parse_faults(faults),
            sellers=sellers,
        )
        scenario = Scenario(plan, pool, tmp_path, parts)
        meet(scenario)
        scenario.run()
        return scenario

    return run


def broken(violations: ViolationLog) -> dict[str, int]:
    return {law: count for law, count in violations.counts.items() if count}


def examples(scenario: Scenario, law: str) -> str:
    return "; ".join(example.text for example in scenario.violations.examples if example.law == law)


class Wrong:
    """Pushes that pass everything on; a subclass does one thing wrong."""

    def __init__(self, inner: PushesPort) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def desiring(change: Callable[[Change], dict[str, Any]]) -> Parts:
    """Return parts whose pushes desire something else at a listing's first pushes."""
    pushes_by_sku: Counter[str] = Counter()

    class Tampering(Wrong):
        def claim(self, shop: Shop, **more: Any) -> PushLease | None:
            push_lease = self.inner.claim(shop, **more)
            if push_lease is None:
                return None
            pushes_by_sku.update(change.sku for change in push_lease.changes)
            changes = [
                replace(old, desired={**old.desired, **change(old)})
                if pushes_by_sku[old.sku] <= 3
                else old
                for old in push_lease.changes
            ]
            return replace(push_lease, changes=changes)

    return Parts(pushes=Tampering)


def test_the_right_parts_break_nothing_and_push_a_lot(simulate: Simulate) -> None:
    scenario = simulate(Parts(), sellers=2)
    assert broken(scenario.violations) == {}
    assert scenario.versions.pushed > 10


def test_l1_notices_a_shop_that_had_to_refuse(simulate: Simulate) -> None:
    scenarios: list[Scenario] = []

    class Storming(Wrong):
        """Bypasses the limiter once with far too many calls."""

        storms = 0

        def due_shops(self, now: datetime, **more: Any) -> list[Shop]:
            if not Storming.storms:
                Storming.storms = 1
                (setup,) = scenarios[0].shops.setups.values()
                query = 'mutation { productUpdate(product: {id: "none"}) { userErrors { field } } }'
                for _ in range(210):
                    scenarios[0].shops.simulator.handle(
                        "POST",
                        f"/{setup.domain}/admin/api/2026-04/graphql.json",
                        {"X-Shopify-Access-Token": setup.access_token},
                        json.dumps({"query": query}).encode(),
                    )
            return self.inner.due_shops(now, **more)

    scenario = simulate(Parts(pushes=Storming), meet=scenarios.append)
    assert "L1" in broken(scenario.violations)


def test_l5_notices_two_pushers_at_one_shop(simulate: Simulate) -> None:
    class Greedy(Wrong):
        def claim(self, shop: Shop, *, now: datetime, **more: Any) -> PushLease | None:
            return self.inner.claim(shop, now=now + timedelta(hours=1), **more)

        def due_shops(self, now: datetime, **more: Any) -> list[Shop]:
            return self.inner.due_shops(now + timedelta(hours=1), **more)

    assert "L5" in broken(simulate(Parts(pushes=Greedy), "crash:60/h").violations)


def test_l5_notices_a_late_push_settle_that_is_accepted(simulate: Simulate) -> None:
    class Lenient(Wrong):
        def settle(self, push_lease: PushLease, pushed: Sequence[Pushed] = (), **more: Any) -> bool:
            self.inner.settle(push_lease, pushed, **more)
            return True

    assert "L5" in broken(simulate(Parts(pushes=Lenient), "stall:60/h").violations)


def test_l6_notices_a_change_that_never_reaches_the_shop(simulate: Simulate) -> None:
    class Idle(Wrong):
        def due_shops(self, *_: object, **__: object) -> list[Shop]:
            return []

    scenario = simulate(Parts(pushes=Idle))
    assert broken(scenario.violations).keys() == {"L6"}
    assert scenario.lost > 3
    assert "and not shown" in examples(scenario, "L6")


def test_l6_notices_a_write_that_never_reached_the_shop(simulate: Simulate, pool: Pool) -> None:
    class Lying(Wrong):
        def due_shops(self, now: datetime, **more: Any) -> list[Shop]:
            with pool.connection() as connection:
                connection.execute(
                    "UPDATE listing_state SET applied = desired, push_at = NULL,"
                    " applied_version = desired_version WHERE push_at IS NOT NULL"
                )
            return self.inner.due_shops(now, **more)

    assert simulate(Parts(pushes=Lying)).lost > 3


def test_l6_notices_a_price_that_was_not_desired(simulate: Simulate) -> None:
    def dearer(change: Change) -> dict[str, Any]:
        return {"price": str(Decimal(change.desired["price"]) + 1)}

    scenario = simulate(desiring(dearer))
    assert "which was not desired" in examples(scenario, "L6")
    assert "L7" not in broken(scenario.violations)


def test_l6_notices_a_product_that_no_push_created(simulate: Simulate) -> None:
    scenarios: list[Scenario] = []

    class Sneaking(Wrong):
        def due_shops(self, now: datetime, **more: Any) -> list[Shop]:
            for seller in scenarios[0].sellers:
                shop = scenarios[0].shops.simulator.shop(domain_of(seller))
                shop.edit_price(next(iter(shop.variants.values())).sku, Decimal(1))
            return self.inner.due_shops(now, **more)

    scenario = simulate(Parts(pushes=Sneaking), meet=scenarios.append)
    assert broken(scenario.violations).keys() == {"L6"}


def test_l7_notices_a_value_that_is_written_twice(simulate: Simulate) -> None:
    class Forgetful(Wrong):
        """Loses once for each listing that it was written."""

        forgotten: set[str]

        def __init__(self, inner: PushesPort) -> None:
            super().__init__(inner)
            self.forgotten = set()

        def settle(self, push_lease: PushLease, pushed: Sequence[Pushed] = (), **more: Any) -> bool:
            kept = [
                push if push.change.sku in self.forgotten else replace(push, applied=None)
                for push in pushed
            ]
            self.forgotten |= {push.change.sku for push in pushed}
            return self.inner.settle(push_lease, kept, **more)

    scenario = simulate(Parts(pushes=Forgetful))
    assert "was written again" in examples(scenario, "L7")
    doubles = len(scenario.shops.simulator.double_writes())
    assert doubles > 0
    # Each at its moment, and again by the shop's own log.
    assert broken(scenario.violations)["L7"] >= 2 * doubles


def test_l7_notices_a_write_without_a_stored_intent(simulate: Simulate) -> None:
    class Unwritten(Wrong):
        def intend(self, *_: object, **__: object) -> bool:
            return True

    scenario = simulate(Parts(pushes=Unwritten))
    assert "no intent is stored" in examples(scenario, "L7")


def test_l7_notices_a_write_that_differs_from_its_intent(simulate: Simulate) -> None:
    class Vague(Wrong):
        def intend(self, push_lease: PushLease, intent: Any, **more: Any) -> bool:
            vague = [{**write, "quantity": 0, "price": "1"} for write in intent.writes]
            return self.inner.intend(push_lease, replace(intent, writes=vague), **more)

    assert "no intent is stored" in examples(simulate(Parts(pushes=Vague)), "L7")


def test_l7_notices_an_older_state_that_replaces_a_newer(simulate: Simulate) -> None:
    def relapsing(app: App) -> App:
        def open_shop(shop: Shop) -> Any:
            return Relapsing(app.new_storefront(shop))

        return replace(app, new_storefront=open_shop)

    class Relapsing:
        """Sends each price, and then again the one before it."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def set_prices(self, writes: Sequence[PriceWrite]) -> Any:
            before = self.inner.read([write.variant for write in writes], locations=4)
            reply = self.inner.set_prices(writes)
            self.inner.set_prices(
                [
                    replace(write, price=shown.price, cost=shown.cost)
                    for write, shown in zip(writes, before, strict=True)
                ]
            )
            return reply

    scenario = simulate(Parts(app=relapsing))
    assert "over a newer one" in examples(scenario, "L7")


@pytest.mark.parametrize("leaving", ("DRAFT", "nothing in stock"))
def test_l8_notices_a_part_that_leaves_the_sale_without_evidence(
    simulate: Simulate, leaving: str
) -> None:
    def drafted(_change: Change) -> dict[str, Any]:
        return {"status": "DRAFT"}

    def emptied(change: Change) -> dict[str, Any]:
        return {"quantities": dict.fromkeys(change.desired["quantities"], 0)}

    scenario = simulate(desiring(drafted if leaving == "DRAFT" else emptied))
    assert "without evidence" in examples(scenario, "L8")


def test_l9_notices_a_price_that_was_not_approved(simulate: Simulate) -> None:
    assert "without approval" in examples(
        simulate(desiring(lambda _change: {"price": "9999.00"})), "L9"
    )


def test_l9_allows_a_return_to_our_price_after_a_merchants_edit(
    simulate: Simulate,
) -> None:
    def hourly(settings: Settings) -> Settings:
        return settings.model_copy(update={"drift_check_h": 1})

    scenario = simulate(Parts(settings=hourly), "shop-edit:600/d", "shop-sale:600/d")
    assert broken(scenario.violations) == {}
    assert scenario.people.edits > 50


def test_l6_notices_an_edit_that_is_not_repaired(simulate: Simulate) -> None:
    def blind(app: App) -> App:
        return replace(app, push_rule=replace(app.push_rule, verify_every=None))

    def hourly(settings: Settings) -> Settings:
        return settings.model_copy(update={"drift_check_h": 1})

    scenario = simulate(Parts(settings=hourly, app=blind), "shop-edit:600/d")
    assert "is desired" in examples(scenario, "L6")


def test_l10_notices_a_write_in_another_sellers_shop(simulate: Simulate) -> None:
    other = {"seller-1": "seller-2", "seller-2": "seller-1"}

    def astray(app: App) -> App:
        def open_shop(shop: Shop) -> Any:
            domain = domain_of(other[shop.user_id])  # type: ignore[arg-type]
            return app.new_storefront(replace(shop, domain=domain))

        return replace(app, new_storefront=open_shop)

    scenario = simulate(Parts(app=astray), sellers=2)
    assert "written for seller-" in examples(scenario, "L10")


def test_l10_notices_a_push_lease_with_another_sellers_listing(simulate: Simulate) -> None:
    class Mixing(Wrong):
        def claim(self, shop: Shop, **more: Any) -> PushLease | None:
            push_lease = self.inner.claim(shop, **more)
            if push_lease is None:
                return None
            changes = [replace(change, user_id="seller-9") for change in push_lease.changes]
            return replace(push_lease, changes=changes)

    assert "is not seller-1's" in examples(simulate(Parts(pushes=Mixing)), "L10")
