"""Etsy in a run: one app whose daily quota all its sellers share."""

from collections.abc import Callable, Mapping

from headway.clock import Clock
from headway_lab.simulation.accounts.platforms import (
    PastClock,
    SimulatedGrant,
    SimulatedWebhook,
    Truth,
)
from headway_lab.simulation.accounts.world import AccountEvent, AccountEventKind, ShopPlan
from headway_lab.simulation.faults import Faults
from headway_lab.simulators.etsy.records import EtsyBuyer
from headway_lab.simulators.etsy.simulator import EtsySimulator
from headway_lab.simulators.faults import FaultPlan
from headway_lab.simulators.tied_faults import FaultyServer
from headway_lab.simulators.transport import SimTransport

# What Etsy allows, which is not to be taken from our own settings.
PER_SECOND = 10
# A change may be shown a little later than it is stamped.
LAG_S = (0.0, 90.0)
TOKEN_LIFE_S = 3600.0
TOPICS = {
    AccountEventKind.ORDER: "order.paid",
    AccountEventKind.SHIP: "order.shipped",
    AccountEventKind.DELIVER: "order.delivered",
    AccountEventKind.CANCEL: "order.canceled",
}


class SimulatedEtsy:
    """The simulator, and what our numbers are called there."""

    def __init__(
        self, clock: Clock, past: PastClock, faults: Faults, *, day_limit: int, seed: int
    ) -> None:
        plan = FaultPlan(seed, rates=faults.shares, outage=faults.outages)
        self.day_limit = self.short_day = day_limit
        self._peak_share: float | None = None
        self.simulator = EtsySimulator(
            past, faults=plan, per_second=PER_SECOND, per_day=day_limit, lag_s=LAG_S, seed=seed
        )
        self.server = FaultyServer(self.simulator.handle)
        self.transport = SimTransport(self.server, clock, seed=seed)
        self._shops: dict[str, int] = {}
        self._orders: dict[tuple[str, int], int] = {}
        self._listings: dict[tuple[str, int], int] = {}

    @property
    def calls(self) -> int:
        """How many requests arrived."""
        return self.simulator.log.calls

    @property
    def refusals(self) -> int:
        """How many calls came too fast, or beyond the daily quota."""
        return sum(self.simulator.log.refusals.values())

    @property
    def injected(self) -> Mapping[str, int]:
        """What went wrong."""
        return self.simulator.faults.injected + self.server.injected

    @property
    def peak_share(self) -> float:
        """The most calls in any 24 hours, of what the day allows, while it was short."""
        now = self.simulator.log.calls_max_day / self.short_day
        return now if self._peak_share is None else self._peak_share

    def lift(self, factor: int) -> None:
        """Raise the daily quota from now on: Etsy grants more on request."""
        self._peak_share = self.peak_share
        self.day_limit *= factor
        self.simulator.meter.per_day = self.day_limit

    def breach(self) -> str | None:
        """Return a description of 24 hours, or a second, with too many calls."""
        log = self.simulator.log
        if log.calls_max_day > self.day_limit:
            return f"{log.calls_max_day} calls came in 24 hours of {self.day_limit}"
        if log.calls_max_second > PER_SECOND:
            return f"{log.calls_max_second} calls came in a second of {PER_SECOND}"
        return None

    def open(self, shop: ShopPlan) -> None:
        """Open a shop."""
        self._shops[shop.key] = self.simulator.add_shop(shop.number).owner.shop_id

    def name(self, shop: ShopPlan) -> str:
        """Return the shop's number."""
        return str(self._shops[shop.key])

    def owner(self, shop: ShopPlan) -> str:
        """Return an empty owner: the limit applies to the app."""
        assert shop.key in self._shops
        return ""

    def grant(self, shop: ShopPlan) -> SimulatedGrant:
        """Grant a pair of tokens, of which the access token expires after an hour."""
        pair = self.simulator.grant(self._shops[shop.key])
        return SimulatedGrant(access=pair.access, refresh=pair.refresh, life_s=TOKEN_LIFE_S)

    def act(self, shop: ShopPlan, event: AccountEvent) -> Callable[[], SimulatedWebhook] | None:
        """Apply an event; Etsy sends webhooks for orders only."""
        shop_id, key = self._shops[shop.key], (shop.key, event.number)
        self._act(shop_id, key, event)
        if event.kind not in TOPICS:
            return None

        def make_webhook() -> SimulatedWebhook:
            headers, body = self.simulator.hook(TOPICS[event.kind], shop_id, self._orders[key])
            return SimulatedWebhook(headers=headers, body=body)

        return make_webhook

    def truth(self, shop: ShopPlan) -> Truth:
        """Return the rows that a warehouse should hold of a shop."""
        return self.simulator.truth(self._shops[shop.key])

    def order_id(self, shop: ShopPlan, number: int) -> str:
        """Return the platform's id of an order."""
        return str(self._orders[shop.key, number])

    def order_text(self, shop: ShopPlan, number: int) -> tuple[bytes, bytes]:
        """Return a text that only replies with that order hold, and garbage to put there."""
        name = b'"receipt_id":'
        return name + self.order_id(shop, number).encode() + b",", name + b"null,"

    def _act(self, shop_id: int, key: tuple[str, int], event: AccountEvent) -> None:
        simulator, kind = self.simulator, event.kind
        if kind is AccountEventKind.ORDER:
            items = [(self._listings[key[0], listing], count) for listing, count in event.lines]
            buyer = _buyer(event.customer)
            self._orders[key] = simulator.place_order(shop_id, buyer=buyer, items=items)
        elif kind is AccountEventKind.SHIP:
            simulator.ship(shop_id, self._orders[key])
        elif kind is AccountEventKind.DELIVER:
            simulator.deliver(shop_id, self._orders[key])
        elif kind is AccountEventKind.CANCEL:
            simulator.cancel(shop_id, self._orders[key])
        elif kind is AccountEventKind.REFUND:
            self._refund(shop_id, self._orders[key], event)
        elif kind is AccountEventKind.LIST:
            self._listings[key] = simulator.add_listing(shop_id, price=int(event.price * 100))
        elif kind is AccountEventKind.EDIT:
            changes = {"price": int(event.price * 100), "quantity": 10 + event.number % 40}
            simulator.edit_listing(shop_id, self._listings[key], state="active", **changes)
        elif kind is AccountEventKind.REMOVE:
            simulator.remove_listing(shop_id, self._listings[key])

    def _refund(self, shop_id: int, receipt_id: int, event: AccountEvent) -> None:
        total = self.simulator.shop(shop_id).receipts[receipt_id].total
        self.simulator.refund(
            shop_id, receipt_id, amount=int(total * event.share), reason="as agreed"
        )


def _buyer(number: int) -> EtsyBuyer:
    email = f"buyer{number}@example.com" if number % 3 else None
    return EtsyBuyer(id=900_000 + number, name=f"Buyer {number}", email=email, country="US")
