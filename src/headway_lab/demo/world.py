"""The demo's world: a supplier whose catalog changes, shops, and a simulated past.

The past runs on virtual time, with the same engine and store, so that the first screen is not
empty. Then the world continues on the demo's fast clock.
"""

import math
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from headway.app import App
from headway.clock import Clock, rng
from headway.config import Settings
from headway.core.catalog.listings import Done, Wait
from headway.runners.embedded import Step, run_steps
from headway_lab.demo.accounts import DemoOrders, Marketplace, open_marketplace, past_pull
from headway_lab.demo.shops import DemoShops, open_shops
from headway_lab.platforms import PRINTIFY
from headway_lab.simulation.world import CENT, World, WorldChange, seeded_world
from headway_lab.simulators.boeing import BoeingSimulator, SignIn, SupplierPart
from headway_lab.simulators.faults import FaultPlan, Interval
from headway_lab.virtual_clock import VirtualClock

DAY_S = 86_400.0
HOUR_S = 3600.0
# The first day reads everything once; only after it can differences be detected.
PAST_H = 30
CATALOG, ACCOUNTS = LANES = ("catalog", "account")
SIGN_IN = SignIn(client_id="demo")
DAYS = 12
# Eight changes where the supplier has one: a demo is watched for minutes, not for weeks.
BUSY = 8
VANISHED_MAX = 4
# Parts that are in no shop yet: some are published in the past, the others while you watch.
NEWCOMERS = 48
PUBLISHED_BEFORE = 6
PUBLISHED_AT_H = 26
# Wrong prices that the supplier sends until it notices.
MISTYPED_FROM_S, MISTYPED_EVERY_S, CORRECTED_AFTER_S = 12 * HOUR_S, 4 * HOUR_S, 36 * HOUR_S
MISTYPED = (Decimal("0.05"), Decimal(3), Decimal("0.1"), Decimal("2.5"))
ERROR_RATE = 0.01
TOKEN_LIFE_S = 6 * 3600.0
PAST_POLL = timedelta(minutes=30)
# Each call of the past is worked through before the page opens: an eager policy spends this share
# of them, or this multiple of the calls that reading every part once a day takes.
PAST_SHARE, PAST_READS_PER_DAY = 0.1, 1.5
# By then everything was read once under any policy, and the shops are looked at in few calls.
PUSHES_FROM_H = 23
# Etsy is pulled as the day went, so that its quota has a past too: the many calls of the first hour
# leave it a few minutes after the page opens. The other shops are looked at late.
PULLS_FROM_H = (12, 29)


class SwitchingClock:
    """A clock that passes from one clock to the next without a jump, for the simulators."""

    is_real = False

    def __init__(self, first: Clock) -> None:
        self._inner = first
        self._lead_s = 0.0

    def switch_to(self, following: Clock) -> None:
        """Go on by another clock from here."""
        self._lead_s = self.monotonic() - following.monotonic()
        self._inner = following

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return self._inner.now()

    def monotonic(self) -> float:
        """Return seconds that never jump, across the handover too."""
        return self._lead_s + self._inner.monotonic()

    def sleep(self, seconds: float, wake: threading.Event | None = None) -> None:
        """Sleep as the present clock does."""
        self._inner.sleep(seconds, wake)

    def event(self) -> threading.Event:
        """Make an event for sleepers on the present clock."""
        return self._inner.event()


class LiveCatalog:
    """The supplier's current catalog; `step` applies the changes that are due."""

    def __init__(self, world: World, clock: Clock) -> None:
        self._clock = clock
        self._origin = clock.now()
        self._parts = {str(sku): part for sku, part in world.start.items()}
        self._changes = world.changes
        self._next = 0

    def lookup(self, sku: str) -> SupplierPart | None:
        """Return the part as it is now, if there is one."""
        return self._parts.get(sku)

    def step(self) -> Done | Wait:
        """Apply the changes that are due; return when the next one is."""
        now = self._clock.now()
        elapsed_s = (now - self._origin).total_seconds()
        while self._next < len(self._changes):
            change = self._changes[self._next]
            if change.at_s > elapsed_s:
                return Wait(
                    until=self._origin + timedelta(seconds=change.at_s), why="a quiet world"
                )
            self._next += 1
            self._parts[change.part.sku] = change.part
        return Wait(until=now + timedelta(days=1), why="the world has no more to tell")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoWorld:
    """The supplier and its catalog, the shops and the platforms, ready to be served."""

    supplier: BoeingSimulator
    catalog: LiveCatalog
    demo_shops: DemoShops
    market: Marketplace
    trade: DemoOrders
    clock: SwitchingClock

    @property
    def verdict(self) -> str:
        """Return how many calls were refused, as each simulator counted."""
        counts = {
            "the supplier": self.supplier.refusals,
            "Shopify": self.demo_shops.shops.refusals,
            "Etsy": self.market.etsy.log.refusals.total(),
            "Printify": self.market.printify.refusals,
        }
        totals = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        return f"Calls refused for rate limits, as each provider counted: {totals}."


def open_world(
    clock: VirtualClock,
    settings: Settings,
    *,
    products: int,
    seed: int,
    sign_in: SignIn,
    speed: float,
    rehearses: bool = False,
) -> DemoWorld:
    """Draw the world, and put its supplier and its shops on the clock of the past."""
    slow = seeded_world(products=products + NEWCOMERS, days=DAYS * BUSY, seed=seed)
    skus = list(slow.start)
    # They vanish one after the other, so that failing, retried and parked parts can all be seen.
    apart = max(1, products // VANISHED_MAX)
    gone = skus[:products:apart][:VANISHED_MAX] if products > VANISHED_MAX else []
    vanish = {
        str(sku): Interval(start_s=DAY_S * (1 + index / 6), end_s=DAYS * DAY_S)
        for index, sku in enumerate(gone)
    }
    changes = [replace(change, at_s=change.at_s / BUSY) for change in slow.changes]
    lively = {change.part.sku for change in changes} | {*gone}
    quiet = [slow.start[sku] for sku in skus[:products] if sku not in lively]
    changes = sorted([*changes, *_mistyped(quiet, seed)], key=lambda change: change.at_s)
    switching_clock = SwitchingClock(clock)
    catalog = LiveCatalog(replace(slow, changes=tuple(changes)), switching_clock)
    faults = FaultPlan(seed, rates={"error": ERROR_RATE}, vanish=vanish)
    supplier = BoeingSimulator(
        catalog,
        switching_clock,
        faults=faults,
        seed=seed,
        sign_in=sign_in,
        token_life_s=TOKEN_LIFE_S,
    )
    parts = list(slow.start.values())
    demo_shops = open_shops(
        switching_clock,
        settings,
        sold=parts[:products],
        newcomers=skus[products:],
        seed=seed,
        speed=speed,
        rehearses=rehearses,
    )
    market = open_marketplace(switching_clock, demo_shops, seed=seed)
    return DemoWorld(
        supplier=supplier,
        catalog=catalog,
        demo_shops=demo_shops,
        market=market,
        trade=DemoOrders(market, switching_clock, seed=seed),
        clock=switching_clock,
    )


def _mistyped(quiet: Sequence[SupplierPart], seed: int) -> Iterator[WorldChange]:
    """Yield mistyped prices of the supplier, each corrected a day and a half later."""
    generator = rng(f"wrong:{seed}")
    most = min(len(quiet), int(DAYS * DAY_S / MISTYPED_EVERY_S))
    for index, part in enumerate(generator.sample(quiet, most)):
        late = max(0, index + 1 - len(MISTYPED))  # the first of each kind come at once
        at_s, factor = MISTYPED_FROM_S + late * MISTYPED_EVERY_S, MISTYPED[index % len(MISTYPED)]
        assert part.list_price is not None
        assert part.net_price is not None
        wrong = replace(
            part,
            list_price=(part.list_price * factor).quantize(CENT),
            net_price=(part.net_price * factor).quantize(CENT),
        )
        yield WorldChange(at_s=at_s, part=wrong)
        yield WorldChange(at_s=at_s + CORRECTED_AFTER_S, part=part)


def past_settings(settings: Settings, *, products: int) -> Settings:
    """Return the settings of the past: an eager policy is slowed, so that the page opens soon."""
    calls_per_day = settings.rate_limit * DAY_S / 60
    needed = PAST_READS_PER_DAY * products / settings.batch_size / calls_per_day
    share = min(settings.budget_share, max(PAST_SHARE, needed))
    return settings.model_copy(update={"budget_share": share})


def simulate_past(
    stage: DemoWorld,
    clock: VirtualClock,
    app: App,
    *,
    progress: Callable[[float], None],
    lanes: Collection[str] = LANES,
) -> None:
    """Fill the shops and simulate days on virtual time; `progress` gets the share done.

    Without the catalog lane nothing is listed, and the shops are only read; without the account
    lane there are no accounts but the shops.
    """
    has_catalog, has_accounts = CATALOG in lanes, ACCOUNTS in lanes
    stage.demo_shops.set_up(app, lists=has_catalog)
    if has_accounts:
        stage.market.set_up(app)
    # No edits were made yet, so no drift check is needed.
    app = replace(
        app,
        rule=replace(app.rule, poll=PAST_POLL),
        push_rule=replace(app.push_rule, poll=PAST_POLL, verify_every=None),
        shop_restore_per_s=stage.demo_shops.restore_per_s,
    )
    bell = clock.event()

    def play(name: str, step: Step, rung: threading.Event | None = None) -> None:
        clock.spawn(partial(run_steps, step, clock, threading.Event(), _quiet, name, wake=rung))

    if has_catalog:
        play("world", stage.catalog.step)
        play("fetch", app.fetch("past", wake_push=bell.set).step)
    if has_accounts:
        play("trade", stage.trade.step)
    pushes_from_h = _pushes_from_h(app, len(stage.demo_shops.sold))
    for hour in range(PAST_H):
        progress(hour / PAST_H)
        if hour == pushes_from_h:
            play("push", app.push("past").step, bell)
        if hour in PULLS_FROM_H and has_accounts:
            play("pull", past_pull(app, is_late=hour != PULLS_FROM_H[0]).step)
        if hour == PUBLISHED_AT_H and has_catalog:
            stage.demo_shops.publish(app, PUBLISHED_BEFORE)
        clock.run((hour + 1) * HOUR_S)
    if has_accounts:  # their history is pulled while you watch
        stage.market.connect(app, PRINTIFY)


def _pushes_from_h(app: App, listings: int) -> int:
    """Return the hour by which everything was read once; an eager policy is through sooner."""
    if not app.policy.is_eager:
        return PUSHES_FROM_H
    settings = app.settings
    calls_per_h = settings.rate_limit * settings.budget_share * 60
    return min(PUSHES_FROM_H, math.ceil(listings / (calls_per_h * settings.batch_size)))


def _quiet(_name: str, _text: str) -> None:
    """Keep the past's log to itself."""
