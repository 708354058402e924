"""Law L16 in the account lane: each way to break it is noticed, and a culprit is excused."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from headway.core.accounts.jobs import Account, DataKind
from headway.core.accounts.warehouse import Unreadable
from headway.core.catalog.listings import SellerId
from headway_lab.platforms import ETSY, PRINTIFY
from headway_lab.simulation.accounts.ages import Ages, Track
from headway_lab.simulation.accounts.blast_radius import BlastRadius, shop_mark
from headway_lab.simulation.accounts.culprits import Culprit
from headway_lab.simulation.accounts.etsy import SimulatedEtsy
from headway_lab.simulation.accounts.faults import CulpritKind, parse_account_faults
from headway_lab.simulation.accounts.platforms import PastClock, SimulatedPlatform
from headway_lab.simulation.accounts.printify import SimulatedPrintify
from headway_lab.simulation.accounts.world import ShopPlan, account_world
from headway_lab.simulation.faults import Faults
from headway_lab.simulation.violation_log import ViolationLog
from headway_lab.simulators.poison import PoisonForm
from headway_lab.virtual_clock import VirtualClock

WORLD = account_world(sellers=12, days=0.1, seed=1)
HOUR_S = 3600.0


@dataclass
class Setup:
    clock: VirtualClock
    violations: ViolationLog
    platforms: dict[str, SimulatedPlatform]

    def shops(self, platform: str) -> Iterator[ShopPlan]:
        return (shop for shop in WORLD.shops.values() if shop.platform == platform)

    def account(self, shop: ShopPlan) -> Account:
        name = self.platforms[shop.platform].name(shop)
        return Account(id=shop.key, user_id=shop.seller, platform=shop.platform, shop=name)

    def blast(self, *culprits: Culprit, faults: tuple[str, ...] = ("poison:1",)) -> BlastRadius:
        return BlastRadius(
            violations=self.violations,
            clock=self.clock,
            culprits=culprits,
            faults=parse_account_faults(faults),
            platforms=self.platforms,
            shared_days={ETSY: 500.0},
        )

    def broken(self) -> list[str]:
        return [example.text for example in self.violations.examples if example.law == "L16"]


@pytest.fixture
def setup() -> Setup:
    clock = VirtualClock(datetime(2026, 1, 27, tzinfo=UTC))
    past = PastClock(clock)
    platforms: dict[str, SimulatedPlatform] = {
        ETSY: SimulatedEtsy(clock, past, Faults(), day_limit=500, seed=1),
        PRINTIFY: SimulatedPrintify(clock, past, Faults(), seed=1),
    }
    for shop in WORLD.shops.values():
        if shop.platform in platforms:
            platforms[shop.platform].open(shop)
    return Setup(clock, ViolationLog(clock), platforms)


def culprit(shop: ShopPlan, kind: CulpritKind) -> Culprit:
    return Culprit(kind=kind, shop=shop, form=PoisonForm.ERROR)


def aged(account: Account, age_s: float) -> Ages:
    """Return one job, due every hour, whose data became that old."""
    ages = Ages()
    track = Track(
        tier=WORLD.tiers[account.user_id],
        platform=account.platform,
        kind=DataKind.ORDERS,
        is_backfill=False,
        interval_s=HOUR_S,
        account_id=account.id,
    )
    ages.follow("job", track, 0.0)
    ages.done("job", 10.0)
    ages.done("job", 10.0 + age_s)
    return ages


@pytest.mark.parametrize(("age_h", "is_broken"), ((1.9, False), (2.1, True)))
def test_an_innocent_job_may_be_twice_as_old_as_usual_and_no_older(
    setup: Setup, age_h: float, *, is_broken: bool
) -> None:
    guilty, innocent = [setup.account(shop) for shop in setup.shops(PRINTIFY)][:2]
    shop = next(setup.shops(PRINTIFY))
    blast = setup.blast(culprit(shop, CulpritKind.PAGE))
    accounts = {account.id: account for account in (guilty, innocent)}
    blast.close(aged(innocent, age_h * HOUR_S), accounts, days=1)
    assert bool(setup.broken()) is is_broken
    blast.close(aged(guilty, 20 * HOUR_S), accounts, days=1)
    assert len(setup.broken()) == is_broken, "the culprit itself may be late"


def test_a_refusal_of_all_tokens_excuses_its_own_length_and_a_while_to_recover(
    setup: Setup,
) -> None:
    account = setup.account(next(setup.shops(PRINTIFY)))
    blast = setup.blast(faults=("wrong-403:10m",))
    blast.close(aged(account, 2.5 * HOUR_S), {account.id: account}, days=1)
    assert setup.broken() == []
    blast.close(aged(account, 2.7 * HOUR_S), {account.id: account}, days=1)
    assert "orders of" in setup.broken()[0]


def test_a_dead_job_breaks_the_law_unless_its_list_never_settles(setup: Setup) -> None:
    endless, other = list(setup.shops(PRINTIFY))[:2]
    blast = setup.blast(culprit(endless, CulpritKind.ENDLESS), culprit(other, CulpritKind.PAGE))
    assert not blast.died(setup.account(endless), "orders", "no progress")
    assert setup.broken() == []
    assert blast.died(setup.account(other), "orders of it", "500")
    assert setup.broken() == ["orders of it is dead: 500"]


def test_only_poisoned_orders_may_be_unreadable(setup: Setup) -> None:
    shop, other = list(setup.shops(PRINTIFY))[:2]
    simulated = setup.platforms[PRINTIFY]
    assert isinstance(simulated, SimulatedPrintify)
    order = simulated.simulator.place_order(int(simulated.name(shop)))
    simulated._orders[shop.key, 1] = order
    blast = setup.blast(Culprit(kind=CulpritKind.POISON, shop=shop, form=PoisonForm.ERROR, order=1))
    ids = (order, "unnamed row before 5", "6")
    records = [Unreadable(kind="orders", external_id=id_, reason="?", raw={}) for id_ in ids]
    assert blast.wrongly_unreadable(setup.account(shop), records) == ["6"]
    assert blast.wrongly_unreadable(setup.account(other), records) == list(ids)


def test_an_account_that_a_wrong_refusal_disconnects_breaks_the_law(setup: Setup) -> None:
    account = setup.account(next(setup.shops(PRINTIFY)))
    blast = setup.blast(faults=("printify-wrong-403:10m@00:00", "crash:1/h"))
    blast.disconnected(account, "403")
    assert "was disconnected by mistake: 403" in setup.broken()[0]
    etsy = Account(id="e", user_id=SellerId("s"), platform=ETSY, shop="1")
    blast.disconnected(etsy, "its tokens were lost by a crash")
    assert len(setup.broken()) == 1


def test_a_shop_that_uses_up_the_day_that_all_share_breaks_the_law(setup: Setup) -> None:
    shop = next(setup.shops(ETSY))
    blast = setup.blast(culprit(shop, CulpritKind.ENDLESS))
    simulated = setup.platforms[ETSY]
    blast.close(Ages(), {}, days=1)
    assert setup.broken() == []
    simulated.server.calls[shop_mark(simulated, shop)] = 5000
    blast.close(Ages(), {}, days=1)
    assert "made 5000 calls, and its share is" in setup.broken()[0]
