"""Shopify in a run: one shop per seller, with customers."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

from headway.clock import Clock
from headway_lab.simulation.accounts.platforms import (
    PastClock,
    SimulatedGrant,
    SimulatedWebhook,
    Truth,
)
from headway_lab.simulation.accounts.world import CENT, AccountEvent, AccountEventKind, ShopPlan
from headway_lab.simulation.faults import Faults
from headway_lab.simulators.shopify.faults import ShopFault, ShopFaultPlan
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.tied_faults import FaultyServer
from headway_lab.simulators.transport import SimTransport

TOPICS = {
    AccountEventKind.ORDER: "orders/create",
    AccountEventKind.SHIP: "fulfillments/create",
    AccountEventKind.DELIVER: "orders/updated",
    AccountEventKind.CANCEL: "orders/cancelled",
    AccountEventKind.REFUND: "refunds/create",
}
# What the lane's words mean at this simulator.
SHARES = {
    "timeout": ShopFault.LOST_REPLY,
    "error": ShopFault.ERROR,
    "slow": ShopFault.SLOW,
    "html": ShopFault.HTML,
}


class SimulatedShopify:
    """The simulator, and what our numbers are called there."""

    def __init__(
        self,
        clock: Clock,
        past: PastClock,
        faults: Faults,
        *,
        shops: Iterable[ShopPlan],
        seed: int,
    ) -> None:
        rates = {SHARES[kind].value: share for kind, share in faults.shares.items()}
        self._setups = {
            shop.key: ShopSetup(domain=domain(shop), access_token=f"sim-token-{shop.number}")
            for shop in shops
        }
        self.simulator = ShopifySimulator(
            past,
            shops=self._setups.values(),
            faults=ShopFaultPlan(seed, rates=rates, outage=faults.outages),
            seed=seed,
        )
        self.server = FaultyServer(self.simulator.handle)
        self.transport = SimTransport(self.server, clock, seed=seed)
        self._orders: dict[tuple[str, int], str] = {}
        self._customers: dict[tuple[str, int], str] = {}

    @property
    def calls(self) -> int:
        """How many requests arrived."""
        return self.simulator.requests

    @property
    def refusals(self) -> int:
        """How many found the bucket empty."""
        return self.simulator.refusals

    @property
    def injected(self) -> Mapping[str, int]:
        """What went wrong."""
        return self.simulator.faults.injected + self.server.injected

    def breach(self) -> str | None:
        """Return nothing: a bucket that lacks points refuses, and that is counted."""
        return None

    def open(self, shop: ShopPlan) -> None:
        """Open a shop: it was made with the simulator."""
        assert shop.key in self._setups

    def name(self, shop: ShopPlan) -> str:
        """Return the shop's address."""
        return self._setups[shop.key].domain

    def owner(self, shop: ShopPlan) -> str:
        """Return an empty owner: the limit applies to the app in the shop."""
        assert shop.key in self._setups
        return ""

    def grant(self, shop: ShopPlan) -> SimulatedGrant:
        """Return the token of a custom app, which never expires."""
        return SimulatedGrant(access=self._setups[shop.key].access_token)

    def act(self, shop: ShopPlan, event: AccountEvent) -> Callable[[], SimulatedWebhook] | None:
        """Apply an event; listings have no webhooks."""
        key = (shop.key, event.number)
        self._act(self.name(shop), key, event)
        if event.kind not in TOPICS:
            return None

        def make_webhook() -> SimulatedWebhook:
            payload = self.simulator.hook(
                TOPICS[event.kind], self._orders[key], shop=self.name(shop)
            )
            return SimulatedWebhook(headers=payload.headers, body=payload.body)

        return make_webhook

    def truth(self, shop: ShopPlan) -> Truth:
        """Return the rows that a warehouse should hold of a shop."""
        return self.simulator.truth(self.name(shop))

    def order_id(self, shop: ShopPlan, number: int) -> str:
        """Return the platform's id of an order."""
        return self._orders[shop.key, number]

    def order_text(self, shop: ShopPlan, number: int) -> tuple[bytes, bytes]:
        """Return a text that only replies with that order hold, and garbage to put there."""
        return b'gid://shopify/Order/%b"' % self.order_id(shop, number).encode(), b'?"'

    def _act(self, name: str, key: tuple[str, int], event: AccountEvent) -> None:
        simulator, kind, sku = self.simulator, event.kind, f"SKU-{event.number}"
        if kind is AccountEventKind.ORDER:
            lines = [(f"SKU-{listing}", count) for listing, count in event.lines]
            customer = self._customer(name, key[0], event.customer)
            self._orders[key] = simulator.place_order(name, lines, customer=customer)
        elif kind is AccountEventKind.SHIP:
            simulator.fulfil(name, self._orders[key])
        elif kind is AccountEventKind.DELIVER:
            simulator.deliver(name, self._orders[key])
        elif kind is AccountEventKind.CANCEL:
            simulator.cancel(name, self._orders[key])
        elif kind is AccountEventKind.REFUND:
            amount = None if event.share == 1 else (event.share * Decimal(10)).quantize(CENT)
            simulator.refund(name, self._orders[key], amount)
        elif kind is AccountEventKind.LIST:
            simulator.seed_product(name, sku, price=event.price)
        elif kind is AccountEventKind.EDIT:
            simulator.edit_price(name, sku, event.price)
        elif kind is AccountEventKind.REMOVE:
            simulator.remove_product(name, sku)

    def _customer(self, name: str, key: str, number: int) -> str:
        """Return a buyer, who may be new; now and then one moves to another country."""
        if (key, number) not in self._customers:
            made = self.simulator.add_customer(name, f"Buyer {number}", email=f"b{number}@x.test")
            self._customers[key, number] = made
        elif number % 5 == 0:
            self.simulator.edit_customer(name, self._customers[key, number], country="CA")
        return self._customers[key, number]


def domain(shop: ShopPlan) -> str:
    """Return a shop's address."""
    return f"shop-{shop.number}.myshopify.com"
