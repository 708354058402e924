"""What people do during a run: they buy, ship, edit, disconnect, reconnect and upgrade.

Platforms send webhooks for some of it. A grant that was lost, because a worker crashed between a
platform's reply and our tables, is given again by its seller within the hour.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from headway.clock import rng
from headway.core.accounts.jobs import Account, PlatformName, Tier
from headway_lab.simulation.accounts.laws import AccountLaws
from headway_lab.simulation.accounts.platforms import SimulatedPlatform, SimulatedWebhook
from headway_lab.simulation.accounts.world import (
    HOUR_S,
    AccountEvent,
    AccountEventKind,
    AccountWorld,
    ShopPlan,
)
from headway_lab.virtual_clock import VirtualClock

REGRANT_S = (300.0, 3600.0)
# When a flood of webhooks begins, and how long it lasts.
FLOOD_BEGINS_S, FLOOD_S = 2 * HOUR_S, HOUR_S

MakeWebhook = Callable[[], SimulatedWebhook]


class SellerActions(Protocol):
    """What sellers ask of Headway."""

    def connect(self, shop: ShopPlan) -> Account:
        """Connect a shop, or connect it again."""

    def disconnect(self, shop: ShopPlan) -> None:
        """Disconnect a shop."""

    def upgrade(self, shop: ShopPlan, tier: Tier) -> None:
        """Move a seller to a higher tier."""

    def deliver(self, platform: PlatformName, hook: SimulatedWebhook) -> str:
        """Take a webhook; return the result."""


class AccountPeople:
    """All that happens, as it was drawn."""

    def __init__(
        self,
        clock: VirtualClock,
        world: AccountWorld,
        platforms: Mapping[PlatformName, SimulatedPlatform],
        operations: SellerActions,
        laws: AccountLaws,
        *,
        seed: int,
    ) -> None:
        self._clock = clock
        self._world = world
        self._platforms = platforms
        self._operations = operations
        self._laws = laws
        self._generator = rng(f"people:{seed}")
        self._shops: dict[str, ShopPlan] = {}
        self._wanted: set[str] = set()
        self.grants_lost = 0
        self.hooks: Counter[str] = Counter()

    def arrive(self) -> None:
        """Connect every shop of every seller."""
        for shop in self._world.shops.values():
            self._connect(shop)

    def live(self) -> None:
        """Perform all drawn events in time."""
        for event in self._world.future:
            self._clock.sleep(event.at_s - self._clock.monotonic())
            self._act(event)

    def flood(self, shop: ShopPlan, webhooks: Sequence[MakeWebhook], count: int) -> None:
        """Deliver that many webhooks about a shop's past orders, evenly over an hour."""
        generator = rng(f"flood:{shop.key}")
        self._clock.sleep(FLOOD_BEGINS_S)
        for _ in range(count):
            self._clock.sleep(FLOOD_S / count)
            webhook = generator.choice(webhooks)()
            self.hooks[self._operations.deliver(shop.platform, webhook)] += 1

    def lost(self, account: Account, _reason: str) -> None:
        """Let the seller of an account whose grant was refused grant again."""
        self._laws.left(account)
        shop = self._shops[account.id]
        if shop.key not in self._wanted:
            return
        self.grants_lost += 1
        self._later(self._generator.uniform(*REGRANT_S), lambda: self._regrant(shop))

    def _act(self, event: AccountEvent) -> None:
        shop = self._world.shops[event.shop]
        if event.kind is AccountEventKind.LEAVE:
            self._wanted.discard(shop.key)
            self._operations.disconnect(shop)
        elif event.kind is AccountEventKind.RETURN:
            self._connect(shop)
        elif event.kind is AccountEventKind.UPGRADE:
            self._operations.upgrade(shop, event.tier)
        else:
            self._send_webhooks(shop, event, self._platforms[shop.platform].act(shop, event))

    def _connect(self, shop: ShopPlan) -> None:
        self._wanted.add(shop.key)
        account = self._operations.connect(shop)
        self._shops[account.id] = shop

    def _regrant(self, shop: ShopPlan) -> None:
        if shop.key in self._wanted:
            self._connect(shop)

    def _send_webhooks(self, shop: ShopPlan, event: AccountEvent, hook: MakeWebhook | None) -> None:
        """Deliver the webhooks of an event, as often and as late as was drawn."""
        if hook is None or not shop.hooked:
            return
        hooks: list[SimulatedWebhook] = []

        def deliver() -> None:
            # A platform that delivers twice repeats itself.
            hooks.append(hooks[0] if hooks else hook())
            self.hooks[self._operations.deliver(shop.platform, hooks[-1])] += 1

        for delay_s in event.hooks_s:
            self._later(delay_s, deliver)
        if not event.hooks_s:
            self.hooks["never sent"] += 1

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        def wait_and_act() -> None:
            self._clock.sleep(delay_s)
            act()

        self._clock.spawn(wait_and_act)
