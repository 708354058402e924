"""Each law of the catalog lane is broken on purpose by one wrong part, and the checks detect it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headway.app import App
from headway.config import Settings
from headway.core.catalog.lifecycle import Settlement
from headway.core.catalog.listings import Candidate, Listing, Outcome, Priority, Sku
from headway.core.timetable.policies import Next, ReadResult
from headway.core.timetable.policies.rolling import Rolling
from headway.engine.explain import reasons
from headway.engine.ports import SchedulePort
from headway.store.pool import Pool
from headway_lab.simulation.explain_checks import check_explanations
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.scenario import Parts, Plan, Scenario
from headway_lab.simulation.world import World, WorldChange, seeded_world

Run = Callable[..., dict[str, int]]
# An outage of the supplier leaves a queue, which is worked off as fast as permits allow.
RUSH = "outage:4h@01:00"


@pytest.fixture
def run(pool: Pool, tmp_path: Path) -> Run:
    def run_it(
        parts: Parts,
        *faults: str,
        products: int = 300,
        days: float = 0.25,
        sellers: int = 1,
        crash_at_s: float | None = None,
        share_per_day: float = 0.05,
    ) -> dict[str, int]:
        world = seeded_world(products=products, days=days, seed=1, share_per_day=share_per_day)
        if crash_at_s is not None:
            world = with_price_crash(world, crash_at_s)
        plan = Plan(
            world=world,
            days=days,
            faults=parse_faults(faults),
            sellers=sellers,
        )
        scenario = Scenario(plan, pool, tmp_path, parts)
        scenario.run()
        return {law: count for law, count in scenario.violations.counts.items() if count}

    return run_it


def with_price_crash(world: World, at_s: float) -> World:
    """Return a world in which five prices fall by 95 % at that second."""
    parts = sorted(world.start.values(), key=lambda part: part.sku)[:5]
    fallen = [
        replace(part, list_price=part.list_price / 20, net_price=part.net_price / 20)
        for part in parts
        if part.list_price and part.net_price
    ]
    return replace(world, changes=tuple(WorldChange(at_s=at_s, part=part) for part in fallen))


class Wrong:
    """A schedule that passes everything on; a subclass does one thing wrong."""

    def __init__(self, inner: SchedulePort) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def tampering(change: Callable[[Settlement], Settlement]) -> Parts:
    """Return parts whose schedule settles something else than it received."""

    class Tampering(Wrong):
        def settle(self, settlements: list[Settlement], **more: object) -> int:
            return self.inner.settle([change(settlement) for settlement in settlements], **more)

    return Parts(schedule=Tampering)


def test_the_right_parts_break_nothing(run: Run) -> None:
    assert run(Parts(), RUSH) == {}


def test_l1_notices_a_limiter_that_allows_three_calls_a_minute(run: Run) -> None:
    def loose(settings: Settings) -> Settings:
        return settings.model_copy(update={"rate_limit": 3, "rate_gap_s": 0})

    assert run(Parts(settings=loose), RUSH)["L1"] > 0


def test_l1_notices_a_limiter_that_counts_from_the_start_of_a_call(run: Run) -> None:
    def hasty(settings: Settings) -> Settings:
        return settings.model_copy(update={"rate_gap_s": 0, "boeing_timeout_s": 30})

    def trusting(app: App) -> App:
        resource = app.limiter.resources[app.limit_key]
        window = replace(resource.windows[0], anchor="start", jitter_s=0)
        app.limiter.resources[app.limit_key] = replace(resource, rules=(window,))
        return app

    assert "L1" in run(Parts(settings=hasty, app=trusting), RUSH)


def test_l2_notices_a_call_that_leaves_one_seat_empty(run: Run) -> None:
    def nine(app: App) -> App:
        seat_rule = replace(app.rule.seat_rule, seats=9)
        return replace(app, rule=replace(app.rule, seat_rule=seat_rule))

    assert run(Parts(app=nine))["L2"] > 0


def test_l2_notices_a_second_seller_that_is_left_out(run: Run) -> None:
    class OneSeller(Wrong):
        def claim(self, skus: list[Sku], **more: object) -> list[Listing]:
            listings = self.inner.claim(skus, **more)
            late = [listing for listing in listings if listing.user_id != "seller-1"]
            self.inner.release(late, suspicion={})
            return [listing for listing in listings if listing.user_id == "seller-1"]

    assert run(Parts(schedule=OneSeller), sellers=2, days=0.1)["L2"] > 0


def test_l3_notices_a_policy_that_reads_too_late(run: Run) -> None:
    def lazy(app: App) -> App:
        class InThirtyHours(Rolling):
            def next_read(self, result: ReadResult) -> Next:
                following = super().next_read(result)
                return replace(following, next_sync_at=result.at + timedelta(hours=30))

        return replace(app, judge=replace(app.judge, policy=InThirtyHours()))

    broken = run(Parts(app=lazy), days=1.2)
    assert broken.keys() == {"L3"}


def test_l5_notices_a_listing_that_two_workers_hold(run: Run) -> None:
    class Greedy(Wrong):
        def front(self, now: datetime, **more: object) -> list[Candidate]:
            self.inner.rescue(now + timedelta(hours=1))
            return self.inner.front(now, **more)

    assert "L5" in run(Parts(schedule=Greedy), "crash:20/h")


def test_l5_notices_a_late_settle_that_is_accepted(run: Run, pool: Pool) -> None:
    class Unfenced(Wrong):
        def settle(self, settlements: list[Settlement], **more: object) -> int:
            with pool.connection() as connection:
                for settlement in settlements:
                    connection.execute(
                        "UPDATE product_sync_schedule SET sync_status = 'syncing', fence = %s,"
                        " lease_owner = 'late', lease_until = now() WHERE id = %s",
                        (settlement.listing.fence, settlement.listing.id),
                    )
            return self.inner.settle(settlements, **more)

    assert "L5" in run(Parts(schedule=Unfenced), "stall:20/h")


def test_l6_notices_a_read_that_was_stored_wrongly(run: Run) -> None:
    def off_by_one(settlement: Settlement) -> Settlement:
        if settlement.observed is None:
            return settlement
        stock = {place: count + 1 for place, count in settlement.observed.quantities.items()}
        return replace(settlement, observed=replace(settlement.observed, quantities=stock))

    assert run(tampering(off_by_one))["L6"] > 0


def test_l6_notices_an_observed_change_that_is_not_desired(run: Run) -> None:
    def forgetful(settlement: Settlement) -> Settlement:
        return replace(settlement, desired=settlement.listing.desired)

    assert run(tampering(forgetful))["L6"] > 0


def test_l8_notices_a_failed_call_that_counts_against_its_listings(run: Run) -> None:
    class Blaming(Wrong):
        def release(self, listings: list[Listing], **_more: object) -> int:
            now = listings[0].next_sync_at
            charged = [
                Settlement(
                    listing=listing,
                    outcome=Outcome.FAILED,
                    priority=Priority.RETRY,
                    next_sync_at=now + timedelta(hours=2),
                    failures=listing.consecutive_failures + 1,
                )
                for listing in listings
            ]
            self.inner.settle(charged, now=now, call_id="00000000-0000-0000-0000-000000000000")
            return len(charged)

    assert run(Parts(schedule=Blaming), "error:30%", days=1)["L8"] > 0


def test_l8_notices_a_parked_listing_without_a_fault(run: Run) -> None:
    def harsh(settlement: Settlement) -> Settlement:
        is_failed = settlement.outcome is Outcome.FAILED
        return replace(settlement, is_parked=True, failures=5) if is_failed else settlement

    assert run(tampering(harsh), "duplicate:50%")["L8"] > 0


@pytest.mark.parametrize(
    "harm",
    (
        {"price": "0.00"},
        pytest.param({"currency": "EUR"}, marks=pytest.mark.campaign),
        pytest.param({"price": "-3.00"}, marks=pytest.mark.campaign),
    ),
)
def test_l9_notices_a_price_that_must_not_reach_the_shop(run: Run, harm: dict[str, str]) -> None:
    def harmful(settlement: Settlement) -> Settlement:
        return (
            replace(settlement, desired={**settlement.desired, **harm})
            if settlement.desired
            else settlement
        )

    assert run(tampering(harmful))["L9"] > 0


# Every listing is read after it.
CRASH: dict[str, Any] = {"products": 60, "days": 1.1, "crash_at_s": 60.0}


def test_a_collapse_of_prices_is_held_and_breaks_no_law(run: Run) -> None:
    assert run(Parts(), **CRASH) == {}


def test_l9_notices_a_guard_that_lets_a_price_fall_by_95_percent(run: Run) -> None:
    def unguarded(settings: Settings) -> Settings:
        return settings.model_copy(update={"guard_move": Decimal(100)})

    # Each once when it is desired, and once when it is in the shop.
    assert run(Parts(settings=unguarded), **CRASH) == {"L9": 10}


def test_l9_notices_a_held_price_that_moves(run: Run) -> None:
    def careless(settlement: Settlement) -> Settlement:
        return (
            replace(settlement, desired=settlement.proposed) if settlement.proposed else settlement
        )

    assert run(tampering(careless), **CRASH)["L9"] >= 5


def test_l6_notices_stock_that_is_held_with_the_price(run: Run) -> None:
    def stubborn(settlement: Settlement) -> Settlement:
        if settlement.held_reason is None or settlement.desired is None:
            return settlement
        stale = {place: count + 1 for place, count in settlement.desired["quantities"].items()}
        return replace(settlement, desired={**settlement.desired, "quantities": stale})

    assert run(tampering(stubborn), **CRASH)["L6"] >= 5


def test_l8_notices_a_failure_that_takes_a_part_off_sale_before_it_is_parked(run: Run) -> None:
    def hasty(settlement: Settlement) -> Settlement:
        if settlement.outcome is not Outcome.FAILED or settlement.listing.desired is None:
            return settlement
        return replace(settlement, desired={**settlement.listing.desired, "status": "DRAFT"})

    assert run(tampering(hasty), "vanish:3@01:00", products=60, days=1.1)["L8"] > 0


def test_l10_notices_a_read_that_writes_another_sellers_row(run: Run, pool: Pool) -> None:
    class Leaking(Wrong):
        def claim(self, skus: list[Sku], **more: object) -> list[Listing]:
            listings = self.inner.claim(skus, **more)
            late = [listing for listing in listings if listing.user_id != "seller-1"]
            self.inner.release(late, suspicion={})
            return [listing for listing in listings if listing.user_id == "seller-1"]

        def settle(self, settlements: list[Settlement], **more: object) -> int:
            refused = self.inner.settle(settlements, **more)
            with pool.connection() as connection:
                connection.execute(
                    "UPDATE product_sync_schedule SET missing_count = 1"
                    " WHERE sku = ANY(%s) AND user_id <> 'seller-1'",
                    ([settlement.listing.sku for settlement in settlements],),
                )
            return refused

    assert run(Parts(schedule=Leaking), sellers=2, days=0.1)["L10"] > 0


def test_the_hourly_comparison_notices_a_row_changed_by_hand(run: Run, pool: Pool) -> None:
    class Meddling(Wrong):
        def rescue(self, now: datetime) -> int:
            with pool.connection() as connection:
                connection.execute(
                    "UPDATE product_sync_schedule SET next_sync_at = %s WHERE sku ="
                    " (SELECT max(sku) FROM product_sync_schedule)",
                    (now + timedelta(hours=9),),
                )
            return self.inner.rescue(now)

    assert run(Parts(schedule=Meddling), days=0.1)["L10"] > 0


@pytest.mark.parametrize("lapse", ({"sentence": ""}, {"until": None}))
def test_l13_notices_a_listing_without_a_reason(
    pool: Pool, tmp_path: Path, lapse: dict[str, Any]
) -> None:
    plan = Plan(world=seeded_world(products=30, days=0.1, seed=1), days=0.1)
    scenario = Scenario(plan, pool, tmp_path)
    check_explanations(scenario.app, scenario.violations)
    assert scenario.violations.counts["L13"] == 0
    check_explanations(
        scenario.app, scenario.violations, lambda *facts: replace(reasons(*facts), **lapse)
    )
    assert scenario.violations.counts["L13"] > 0


def test_l1_notices_a_call_while_everything_is_paused(run: Run, pool: Pool) -> None:
    class IgnoringPauses(Wrong):
        """Ends every pause before it reads, as if there were none."""

        def front(self, now: datetime, **more: Any) -> list[Candidate]:
            with pool.connection() as connection:
                connection.execute("DELETE FROM pauses")
            return self.inner.front(now, **more)

    assert run(Parts(schedule=IgnoringPauses), "pause:3h@01:00", days=0.2)["L1"] > 0
