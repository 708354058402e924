"""The sellers' shops, one per seller; at the start every listing is shown as it should be.

What a shop shows is derived from the shop's own log and from what people do, never from our tables.
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
    """One listing in its shop: what is shown, what customers bought, what a merchant changed.

    `changed_by_hand` holds when, and the value before.
    """

    id: str
    seller: SellerId
    sku: Sku
    shop_fields: dict[str, Any]
    sold: dict[str, int] = field(default_factory=dict)
    changed_by_hand: dict[str, tuple[float, Any]] = field(default_factory=dict)

    @property
    def offer(self) -> ShopFields:
        """What is shown, without the sale status: comparable with the supplier's data."""
        return {facet: value for facet, value in self.shop_fields.items() if facet != "status"}

    def lacks(self, expected: ShopFields) -> list[str]:
        """Return the facets that differ from the expected; sales since our write are fine."""
        return [facet for facet, value in expected.items() if not self._fits(facet, value)]

    def write(self, facet: str, value: object) -> None:
        """Record a write."""
        self.shop_fields[facet] = value
        self.sold.pop(facet, None)
        self.changed_by_hand.pop(facet, None)

    def take(self, facet: str, quantity: int) -> None:
        """Note that a customer bought."""
        self.shop_fields[facet] -= quantity
        self.sold[facet] = self.sold.get(facet, 0) + quantity

    def change_by_hand(self, facet: str, value: object, now_s: float) -> None:
        """Record what a merchant changed by hand."""
        self.changed_by_hand[facet] = (now_s, self.shop_fields[facet])
        self.shop_fields[facet] = value

    def _fits(self, facet: str, value: object) -> bool:
        shown = self.shop_fields[facet]
        return shown == value or (facet in self.sold and shown + self.sold[facet] == value)


class Shops:
    """The simulated shops and their owners."""

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
        # Read once: asking for a shop advances its bulk operations.
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
        """Return the owner of the shop that was written to."""
        return self._shops[effect.shop][0]

    def listing_of(self, effect: ShopEffect) -> ShownListing | None:
        """Return the listing that was written to; None if it is not known."""
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
        """Yield where a shop's own data differs from the writes that we observed."""
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
        """Let a customer buy one piece."""
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
