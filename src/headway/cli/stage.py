"""The demo's world: a supplier whose catalogue changes, and a past that was lived through.

The past runs on virtual time, with the same engine and store, so that the first screen is not
empty. Then the supplier is handed over to the demo's fast clock and goes on as if nothing was.
"""

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from headway.app import App
from headway.clock import Clock, VirtualClock
from headway.core.model import Done, SellerId, Sku, Wait
from headway.engine.fetch import FetchRule
from headway.runners.embedded import turn
from headway.simulation.world import World, seeded_world
from headway.simulators.boeing import BoeingSimulator, Part, SignIn
from headway.simulators.faults import FaultPlan, Interval

DAY_S = 86_400.0
HOUR_S = 3600.0
# The first day reads everything once; only the second can see a difference.
PAST_DAYS = 2
DAYS = 12
# Eight changes where the supplier has one: a demo is watched for minutes, not for weeks.
BUSY = 8
SELLERS = ("meridian", "northwind", "skyline")
VANISHED_MAX = 4
ERROR_RATE = 0.01
TOKEN_LIFE_S = 6 * 3600.0
PAST_POLL = timedelta(minutes=30)


class Handover:
    """A clock that passes from one clock to the next without a jump; only the supplier reads it."""

    is_real = False

    def __init__(self, first: Clock) -> None:
        self._inner = first
        self._lead_s = 0.0

    def pass_to(self, following: Clock) -> None:
        """Go on by another clock from here."""
        self._lead_s = self.monotonic() - following.monotonic()
        self._inner = following

    def now(self) -> datetime:
        """Return the instant, in UTC."""
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


class Shelves:
    """What the supplier has at this moment; `step` plays the changes that have come."""

    def __init__(self, world: World, clock: Clock) -> None:
        self._clock = clock
        self._origin = clock.now()
        self._parts = {str(sku): part for sku, part in world.start.items()}
        self._changes = world.changes
        self._next = 0

    def lookup(self, sku: str) -> Part | None:
        """Return the part as it is now, if there is one."""
        return self._parts.get(sku)

    def step(self) -> Done | Wait:
        """Play what is due, and say when the next change comes."""
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
class Stage:
    """The supplier and its shelves, ready to be served."""

    supplier: BoeingSimulator
    shelves: Shelves
    clock: Handover
    skus: Sequence[Sku]


def at_speed(rule: FetchRule, speed: float) -> FetchRule:
    """Return the rule with real waits where real work is done: the database runs no faster."""
    more = max(1.0, speed)
    return replace(
        rule,
        poll=max(rule.poll, timedelta(seconds=0.25 * more)),
        lease=rule.lease * more,
        permit_grace=rule.permit_grace * more,
    )


def set_stage(clock: VirtualClock, *, products: int, seed: int, sign_in: SignIn) -> Stage:
    """Draw the world and put its supplier on the clock of the past."""
    slow = seeded_world(products=products, days=DAYS * BUSY, seed=seed)
    changes = tuple(replace(each, at_s=each.at_s / BUSY) for each in slow.changes)
    world = replace(slow, changes=changes)
    skus = list(world.start)
    # They leave one after the other, so that failing, retried and parked are all to be seen.
    gone = (
        skus[:: max(1, products // VANISHED_MAX)][:VANISHED_MAX] if products > VANISHED_MAX else []
    )
    vanish = {
        str(sku): Interval(start_s=DAY_S * (1 + index / 6), end_s=DAYS * DAY_S)
        for index, sku in enumerate(gone)
    }
    handover = Handover(clock)
    shelves = Shelves(world, handover)
    faults = FaultPlan(seed, rates={"error": ERROR_RATE}, vanish=vanish)
    supplier = BoeingSimulator(
        shelves, handover, faults=faults, seed=seed, sign_in=sign_in, token_life_s=TOKEN_LIFE_S
    )
    return Stage(supplier=supplier, shelves=shelves, clock=handover, skus=skus)


def live_past(
    stage: Stage, clock: VirtualClock, app: App, *, progress: Callable[[float], None]
) -> None:
    """List every part and let days pass on virtual time; `progress` hears the share done."""
    sellers = itertools.cycle(SELLERS)
    keys = [(SellerId(next(sellers)), sku) for sku in stage.skus]
    app.listings.add(keys, policy=app.policy, now=clock.now())
    fetch = app.with_poll(PAST_POLL).fetch("past")
    wake = threading.Event()
    for name, step in (("world", stage.shelves.step), ("fetch", fetch.step)):
        clock.spawn(partial(turn, step, clock, wake, _quiet, name))
    for hour in range(PAST_DAYS * 24):
        progress(hour / (PAST_DAYS * 24))
        clock.run((hour + 1) * HOUR_S)


def _quiet(_name: str, _text: str) -> None:
    """Keep the past's log to itself."""
