"""What people do in the shops behind our back: they buy, edit prices, and make products anew."""

from decimal import Decimal

from headway.clock import Clock, rng
from headway_lab.simulation.faults import Faults
from headway_lab.simulation.shop_laws import ShopLaws
from headway_lab.simulation.shops import Shelf, Shops
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
        self._shelves = sorted(shops.shelves.values(), key=lambda shelf: (shelf.seller, shelf.sku))
        self._luck = rng(f"people:{seed}")
        self.edits = 0
        self.sales = 0
        self.renumbered = 0

    def spawn(self, crew: SimulatedWorkers, faults: Faults) -> None:
        """Let them live their lives, as often as was asked for."""
        if not self._shelves:
            return
        crew.spawn_times("shop-edit", faults.shop_edits_per_h, self._edit)
        crew.spawn_times("shop-sale", faults.shop_sales_per_h, self._buy)
        for count, at_s in faults.shop_stale:
            crew.spawn_at(at_s, lambda count=count: self._renumber(count))  # type: ignore[misc]

    def _edit(self) -> None:
        shelf = self._pick()
        price = (shelf.face["price"] * self._luck.choice(EDITS)).quantize(CENT)
        if shelf.meddled or price <= 0 or price == shelf.face["price"]:
            return
        self.edits += 1
        self._shops.edit_price(shelf, price, self._clock.monotonic())
        self._laws.meddled(shelf, "price")

    def _buy(self) -> None:
        shelf = self._pick()
        places = [place for place in self._places if shelf.face[stock_at(place)] > 0]
        if not places:
            return
        self.sales += 1
        place = self._luck.choice(places)
        self._shops.sell(shelf, place)
        self._laws.meddled(shelf, stock_at(place))

    def _renumber(self, count: int) -> None:
        for shelf in self._luck.sample(self._shelves, min(count, len(self._shelves))):
            self.renumbered += 1
            self._shops.renumber(shelf)

    def _pick(self) -> Shelf:
        return self._luck.choice(self._shelves)
