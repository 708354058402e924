"""Printify in a run: shops of several accounts, orders that are produced and shipped."""

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
from headway_lab.simulators.faults import FaultPlan
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.tied_faults import FaultyServer
from headway_lab.simulators.transport import SimTransport

# What Printify allows, which is not to be taken from our own settings.
LIMIT = 600
FULFILLED = "fulfilled"
TOPICS = {
    AccountEventKind.ORDER: "order:created",
    AccountEventKind.SHIP: "order:shipment:created",
    AccountEventKind.DELIVER: "order:shipment:delivered",
    AccountEventKind.CANCEL: "order:updated",
    AccountEventKind.REMOVE: "product:deleted",
}


class SimulatedPrintify:
    """The simulator, and what our numbers are called there."""

    def __init__(self, clock: Clock, past: PastClock, faults: Faults, *, seed: int) -> None:
        plan = FaultPlan(seed, rates=faults.shares, outage=faults.outages)
        self.simulator = PrintifySimulator(past, faults=plan, limit=LIMIT, seed=seed)
        self.server = FaultyServer(self.simulator.handle)
        self.transport = SimTransport(self.server, clock, seed=seed)
        self._shops: dict[str, int] = {}
        self._orders: dict[tuple[str, int], str] = {}
        self._products: dict[tuple[str, int], str] = {}

    @property
    def calls(self) -> int:
        """How many requests arrived."""
        return sum(self.simulator.calls.values())

    @property
    def refusals(self) -> int:
        """How many calls came too fast."""
        return self.simulator.refusals

    @property
    def injected(self) -> Mapping[str, int]:
        """What went wrong."""
        return self.simulator.faults.injected + self.server.injected

    def breach(self) -> str | None:
        """Return a description of an account with too many calls in a minute."""
        most = self.simulator.max_calls_in_window
        return f"{most} calls of one account came in a minute" if most > LIMIT else None

    def open(self, shop: ShopPlan) -> None:
        """Open a shop in its seller's account."""
        self._shops[shop.key] = self.simulator.add_shop(account=shop.seller)

    def name(self, shop: ShopPlan) -> str:
        """Return the shop's number."""
        return str(self._shops[shop.key])

    def owner(self, shop: ShopPlan) -> str:
        """Return the account, known by the smallest number of its shops: here there is one."""
        return self.name(shop)

    def grant(self, shop: ShopPlan) -> SimulatedGrant:
        """Make a personal token."""
        return SimulatedGrant(access=self.simulator.personal_token(shop.seller))

    def act(self, shop: ShopPlan, event: AccountEvent) -> Callable[[], SimulatedWebhook] | None:
        """Apply an event; Printify has no refunds."""
        subject = self._act(self._shops[shop.key], (shop.key, event.number), event)
        if subject is None or event.kind not in TOPICS:
            return None

        def make_webhook() -> SimulatedWebhook:
            topic = TOPICS[event.kind]
            headers, body = self.simulator.hook(topic, self._shops[shop.key], subject)
            return SimulatedWebhook(headers=headers, body=body)

        return make_webhook

    def truth(self, shop: ShopPlan) -> Truth:
        """Return the rows that a warehouse should hold of a shop."""
        return self.simulator.truth(self._shops[shop.key])

    def order_id(self, shop: ShopPlan, number: int) -> str:
        """Return the platform's id of an order."""
        return self._orders[shop.key, number]

    def order_text(self, shop: ShopPlan, number: int) -> tuple[bytes, bytes]:
        """Return a text that only replies with that order hold, and garbage to put there."""
        return b'"%b"' % self.order_id(shop, number).encode(), b"null"

    def _act(self, shop_id: int, key: tuple[str, int], event: AccountEvent) -> str | None:
        simulator, kind = self.simulator, event.kind
        if kind is AccountEventKind.ORDER:
            self._orders[key] = simulator.place_order(shop_id)
        elif kind is AccountEventKind.SHIP:
            while simulator.advance(shop_id, self._orders[key]) != FULFILLED:
                pass
        elif kind is AccountEventKind.DELIVER:
            simulator.deliver(shop_id, self._orders[key])
        elif kind is AccountEventKind.CANCEL:
            simulator.cancel(shop_id, self._orders[key])
        elif kind is AccountEventKind.LIST:
            self._products[key] = simulator.add_product(shop_id)
        elif kind is AccountEventKind.EDIT:
            simulator.edit_product(shop_id, self._products[key])
        elif kind is AccountEventKind.REMOVE:
            simulator.remove_product(shop_id, self._products[key])
        else:
            return None
        is_listing = kind in {AccountEventKind.LIST, AccountEventKind.EDIT, AccountEventKind.REMOVE}
        return (self._products if is_listing else self._orders)[key]
