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
from headway_lab.simulation.truth import ShopFields, ShownState, stock_at
from headway_lab.simulators.shopify.faults import ShopFaultPlan
from headway_lab.simulators.shopify.request import ShopEffect
from headway_lab.simulators.shopify.shop import ShopIds, ShopScreen, ShopSetup, SimulatedShop
from headway_lab.simulators.shopify.simulator import ShopifySimulator


@dataclass(slots=True, kw_only=True)
class ShownListing:
    """One listing in its shop: what is shown, what customers took, what a merchant changed.

    `meddled` tells when, and what was there before.
    """

    id: str
    seller: SellerId
    sku: Sku
    shop_fields: dict[str, Any]
    sold: dict[str, int] = field(default_factory=dict)
    changed_by_hand: dict[str, tuple[float, Any]] = field(default_factory=dict)

    @property
    def offer(self) -> ShopFields:
        """What is shown, but for whether it is on sale: as the supplier's truth is told."""
        return {facet: value for facet, value in self.shop_fields.items() if facet != "status"}

    def lacks(self, expected: ShopFields) -> list[str]:
        """Return the facets that are not as wanted; what was sold since we wrote it is in order."""
        return [facet for facet, value in expected.items() if not self._fits(facet, value)]

    def write(self, facet: str, value: object) -> None:
        """Note what the shop was told to show."""
        self.shop_fields[facet] = value
        self.sold.pop(facet, None)
        self.changed_by_hand.pop(facet, None)

    def take(self, facet: str, quantity: int) -> None:
        """Note that a customer bought."""
        self.shop_fields[facet] -= quantity
        self.sold[facet] = self.sold.get(facet, 0) + quantity

    def change_by_hand(self, facet: str, value: object, now_s: float) -> None:
        """Note what a merchant changed by hand."""
        self.changed_by_hand[facet] = (now_s, self.shop_fields[facet])
        self.shop_fields[facet] = value

    def _fits(self, facet: str, value: object) -> bool:
        shown = self.shop_fields[facet]
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
        self._shop_listings: dict[tuple[SellerId, str], ShownListing] = {}

    @property
    def shop_listings(self) -> Mapping[str, ShownListing]:
        """Every listing that is in a shop, by id."""
        return {shop_listing.id: shop_listing for shop_listing in self._shop_listings.values()}

    def stock(self, row: ListingRow, shown: ShownState) -> ShopIds:
        """Put a listing on sale as it should be."""
        shop_fields = shown.shop_fields
        ids = self.simulator.seed_product(
            domain_of(row.user_id),
            row.sku,
            price=shop_fields["price"],
            cost=shop_fields["cost"],
            compare_at=shop_fields["compare_at"],
            quantities=dict(shown.stock),
            handle=f"part-{len(self._shop_listings)}",
        )
        self._shop_listings[row.user_id, row.sku] = ShownListing(
            id=row.id,
            seller=row.user_id,
            sku=row.sku,
            shop_fields={**shop_fields, "status": "ACTIVE"},
        )
        return ids

    def seller_of(self, effect: ShopEffect) -> SellerId:
        """Return whose shop was written to."""
        return self._shops[effect.shop][0]

    def listing_of(self, effect: ShopEffect) -> ShownListing | None:
        """Return the listing that was written to; None if it is nobody's."""
        seller, shop = self._shops[effect.shop]
        product = shop.products.get(effect.id)
        ids = product.variants if product else (shop.items.get(effect.id, effect.id),)
        variant = shop.variants.get(ids[0]) if ids else None
        return None if variant is None else self._shop_listings.get((seller, variant.sku))

    def facet_of(self, effect: ShopEffect) -> str:
        """Return which facet was written."""
        if effect.kind != "stock":
            return effect.kind
        _, shop = self._shops[effect.shop]
        return stock_at(shop.locations[effect.location or ""].name)

    def unexpected_products(self) -> Iterator[str]:
        """Say what the shops' own shelves hold beside, or other than, what we saw put there."""
        for seller, shop in self._shops.values():
            own_listings = [
                shop_listing
                for (owner, _), shop_listing in self._shop_listings.items()
                if owner == seller
            ]
            if len(shop.variants) != len(own_listings):
                count = len(shop.variants)
                yield f"{shop.setup.domain} has {count} products of {len(own_listings)}"
            for shop_listing in own_listings:
                view = shop.shown(shop_listing.sku)
                if view is None or fields_of_view(view) != shop_listing.shop_fields:
                    domain, expected = shop.setup.domain, shop_listing.shop_fields
                    yield f"{shop_listing.sku} in {domain} is {view}, not {expected}"

    # -- what people do ----------------------------------------------------------------------

    def renumber(self, shop_listing: ShownListing) -> None:
        """Give a product new ids."""
        self.simulator.renumber(domain_of(shop_listing.seller), shop_listing.sku)

    def edit_price(self, shop_listing: ShownListing, price: Decimal, now_s: float) -> None:
        """Change a price as the merchant does."""
        self.simulator.edit_price(domain_of(shop_listing.seller), shop_listing.sku, price)
        shop_listing.change_by_hand("price", price, now_s)

    def sell(self, shop_listing: ShownListing, place: str) -> None:
        """Let a customer buy one."""
        self.simulator.sell(domain_of(shop_listing.seller), shop_listing.sku, place)
        shop_listing.take(stock_at(place), 1)


def fields_of_view(view: ShopScreen) -> ShopFields:
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
