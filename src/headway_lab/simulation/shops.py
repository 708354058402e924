"""The sellers' shops: one for each, on whose shelves every listing stands as it should at first.

What a shelf shows is kept from the shop's own log and from what people do, never from our tables.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from headway.clock import Clock
from headway.core.catalog.listings import SellerId, Sku
from headway_lab.simulation.evidence import ListingRow
from headway_lab.simulation.truth import Face, ShownState, stock_at
from headway_lab.simulators.shopify.faults import ShopFaultPlan
from headway_lab.simulators.shopify.request import ShopEffect
from headway_lab.simulators.shopify.shop import ShopIds, ShopScreen, ShopSetup, SimulatedShop
from headway_lab.simulators.shopify.simulator import ShopifySimulator


@dataclass(slots=True, kw_only=True)
class Shelf:
    """One listing in its shop: what is shown, what customers took, what a merchant changed.

    `meddled` tells when, and what was there before.
    """

    id: str
    seller: SellerId
    sku: Sku
    face: dict[str, Any]
    sold: dict[str, int] = field(default_factory=dict)
    meddled: dict[str, tuple[float, Any]] = field(default_factory=dict)

    @property
    def offer(self) -> Face:
        """What is shown, but for whether it is on sale: as the supplier's truth is told."""
        return {facet: value for facet, value in self.face.items() if facet != "status"}

    def lacks(self, expected: Face) -> list[str]:
        """Return the facets that are not as wanted; what was sold since we wrote it is in order."""
        return [facet for facet, value in expected.items() if not self._fits(facet, value)]

    def write(self, facet: str, value: object) -> None:
        """Note what the shop was told to show."""
        self.face[facet] = value
        self.sold.pop(facet, None)
        self.meddled.pop(facet, None)

    def take(self, facet: str, quantity: int) -> None:
        """Note that a customer bought."""
        self.face[facet] -= quantity
        self.sold[facet] = self.sold.get(facet, 0) + quantity

    def meddle(self, facet: str, value: object, now_s: float) -> None:
        """Note what a merchant changed by hand."""
        self.meddled[facet] = (now_s, self.face[facet])
        self.face[facet] = value

    def _fits(self, facet: str, value: object) -> bool:
        shown = self.face[facet]
        return shown == value or (facet in self.sold and shown + self.sold[facet] == value)


class Shops:
    """The simulated shops, and whose each is."""

    def __init__(
        self,
        clock: Clock,
        *,
        sellers: Iterable[SellerId],
        places: Sequence[str],
        currency: str,
        faults: ShopFaultPlan,
        seed: int,
    ) -> None:
        self.setups = {
            seller: ShopSetup(domain=domain_of(seller), locations=places, currency=currency)
            for seller in sellers
        }
        self.simulator = ShopifySimulator(
            clock, shops=self.setups.values(), faults=faults, seed=seed
        )
        # Taken once: to ask for a shop is to let its bulk operations catch up.
        self._shops: dict[str, tuple[SellerId, SimulatedShop]] = {
            setup.domain: (seller, self.simulator.shop(setup.domain))
            for seller, setup in self.setups.items()
        }
        self._shelves: dict[tuple[SellerId, str], Shelf] = {}

    @property
    def shelves(self) -> Mapping[str, Shelf]:
        """Every listing that is in a shop, by id."""
        return {shelf.id: shelf for shelf in self._shelves.values()}

    def stock(self, row: ListingRow, shown: ShownState) -> ShopIds:
        """Put a listing on sale as it should be."""
        face = shown.face
        ids = self.simulator.seed_product(
            domain_of(row.user_id),
            row.sku,
            price=face["price"],
            cost=face["cost"],
            compare_at=face["compare_at"],
            quantities=dict(shown.stock),
            handle=f"part-{len(self._shelves)}",
        )
        self._shelves[row.user_id, row.sku] = Shelf(
            id=row.id,
            seller=row.user_id,
            sku=row.sku,
            face={**face, "status": "ACTIVE"},
        )
        return ids

    def seller_of(self, effect: ShopEffect) -> SellerId:
        """Return whose shop was written to."""
        return self._shops[effect.shop][0]

    def shelf_of(self, effect: ShopEffect) -> Shelf | None:
        """Return the listing that was written to; None if it is nobody's."""
        seller, shop = self._shops[effect.shop]
        product = shop.products.get(effect.id)
        ids = product.variants if product else (shop.items.get(effect.id, effect.id),)
        variant = shop.variants.get(ids[0]) if ids else None
        return None if variant is None else self._shelves.get((seller, variant.sku))

    def facet_of(self, effect: ShopEffect) -> str:
        """Return which facet was written."""
        if effect.kind != "stock":
            return effect.kind
        _, shop = self._shops[effect.shop]
        return stock_at(shop.locations[effect.location or ""].name)

    def strangers(self) -> Iterator[str]:
        """Say what the shops' own shelves hold beside, or other than, what we saw put there."""
        for seller, shop in self._shops.values():
            own_shelves = [shelf for (owner, _), shelf in self._shelves.items() if owner == seller]
            if len(shop.variants) != len(own_shelves):
                yield f"{shop.setup.domain} has {len(shop.variants)} products of {len(own_shelves)}"
            for shelf in own_shelves:
                view = shop.shown(shelf.sku)
                if view is None or face_of_view(view) != shelf.face:
                    yield f"{shelf.sku} in {shop.setup.domain} is {view}, not {shelf.face}"

    # -- what people do ----------------------------------------------------------------------

    def renumber(self, shelf: Shelf) -> None:
        """Give a product new ids."""
        self.simulator.renumber(domain_of(shelf.seller), shelf.sku)

    def edit_price(self, shelf: Shelf, price: Decimal, now_s: float) -> None:
        """Change a price as the merchant does."""
        self.simulator.edit_price(domain_of(shelf.seller), shelf.sku, price)
        shelf.meddle("price", price, now_s)

    def sell(self, shelf: Shelf, place: str) -> None:
        """Let a customer buy one."""
        self.simulator.sell(domain_of(shelf.seller), shelf.sku, place)
        shelf.take(stock_at(place), 1)


def face_of_view(view: ShopScreen) -> Face:
    """Return what a shop shows of a product, facet by facet."""
    return {
        "price": view.price,
        "cost": view.cost,
        "compare_at": view.compare_at,
        "status": view.status,
        **{stock_at(place): quantity for place, quantity in view.quantities.items()},
    }


def domain_of(seller: SellerId) -> str:
    """Return the address of a seller's shop."""
    return f"{seller}.myshopify.com"
