"""People who change the shops directly: they buy, edit prices, and recreate products."""

from decimal import Decimal

from headway.clock import Clock, rng
from headway_lab.simulation.faults import Faults
from headway_lab.simulation.shop_laws import ShopLaws
from headway_lab.simulation.shops import Shops, ShownListing
from headway_lab.simulation.truth import CENT, stock_at
from headway_lab.simulation.workers import SimulatedWorkers

EDITS = (Decimal("0.80"), Decimal("0.90"), Decimal("1.10"), Decimal("1.25"))


class People:
    """Customers and merchants, drawn from the seed."""

    def __init__(
        self, clock: Clock, shops: Shops, laws: ShopLaws, *, places: list[str], seed: int
    ) -> None:
        self._clock = clock
        self._shops = shops
        self._laws = laws
        self._places = places
        self._shop_listings = sorted(
            shops.shop_listings.values(),
            key=lambda shop_listing: (shop_listing.seller, shop_listing.sku),
        )
        self._generator = rng(f"people:{seed}")
        self.edits = 0
        self.sales = 0
        self.renumbered = 0

    def spawn(self, workers: SimulatedWorkers, faults: Faults) -> None:
        """Schedule their actions as often as the faults say."""
        if not self._shop_listings:
            return
        workers.spawn_times("shop-edit", faults.shop_edits_per_h, self._edit)
        workers.spawn_times("shop-sale", faults.shop_sales_per_h, self._buy)
        for count, at_s in faults.shop_stale:
            workers.spawn_at(at_s, lambda count=count: self._renumber(count))  # type: ignore[misc]

    def _edit(self) -> None:
        shop_listing = self._pick()
        price = (shop_listing.shop_fields["price"] * self._generator.choice(EDITS)).quantize(CENT)
        if shop_listing.changed_by_hand or price <= 0 or price == shop_listing.shop_fields["price"]:
            return
        self.edits += 1
        self._shops.edit_price(shop_listing, price, self._clock.monotonic())
        self._laws.changed_by_hand(shop_listing, "price")

    def _buy(self) -> None:
        shop_listing = self._pick()
        places = [place for place in self._places if shop_listing.shop_fields[stock_at(place)] > 0]
        if not places:
            return
        self.sales += 1
        place = self._generator.choice(places)
        self._shops.sell(shop_listing, place)
        self._laws.changed_by_hand(shop_listing, stock_at(place))

    def _renumber(self, count: int) -> None:
        for shop_listing in self._generator.sample(
            self._shop_listings, min(count, len(self._shop_listings))
        ):
            self.renumbered += 1
            self._shops.renumber(shop_listing)

    def _pick(self) -> ShownListing:
        return self._generator.choice(self._shop_listings)
