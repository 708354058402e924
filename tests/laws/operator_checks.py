"""What is checked after every event of an operator's world: laws L6 and L9, by other means.

What the supplier has quoted is read by the simulation's reference reader. What was written to the
shop is read in the shop's own log. What a person was shown is remembered here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from headway.core.catalog.guard import MASS_MIN
from headway.store.catalog.review import HeldChange
from headway.store.monitoring.law_checks import LawChecks
from headway_lab.simulation.truth import ReferenceReader
from headway_lab.simulators.boeing import SupplierPart

DAY = timedelta(days=1)
HALF = Decimal("0.5")
MASS_STOCK = "ran out of stock"
STATES = """
SELECT row.sku, row.is_active, row.sync_status, row.last_successful_sync, row.consecutive_failures,
  row.missing_count, row.is_paused, state.observed, state.desired, state.applied,
  state.held_reason, state.rejected, state.proposed, state.push_at, state.push_error
FROM product_sync_schedule AS row LEFT JOIN listing_state AS state USING (user_id, sku)
ORDER BY row.sku
"""
NAMES = (
    "sku", "is_active", "sync_status", "read_at", "failures", "missing", "is_paused", "observed",
    "desired", "applied", "held_reason", "rejected", "proposed", "push_at", "push_error",
)  # fmt: skip
PAUSED = "SELECT EXISTS (SELECT FROM pauses WHERE until IS NULL OR until > %s)"
TERMS = "SELECT price_basis, markup, rounding FROM profiles WHERE user_id = 'acme'"
Row = dict[str, Any]


class BrokenLawError(AssertionError):
    """A law was broken after an action."""


class CheckedWorld(Protocol):
    """What the checks look at."""

    app: Any
    clock: Any
    catalog: Any
    supplier: Any
    shop: Any
    pool: Any
    gates: Any

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement."""


@dataclass
class Checks:
    """The checks, and what they remember."""

    world: CheckedWorld
    approved: dict[str, set[Decimal]] = field(default_factory=dict)
    edited: dict[str, set[Decimal]] = field(default_factory=dict)
    ours: dict[str, set[Decimal]] = field(default_factory=dict)
    desired: dict[str, Decimal] = field(default_factory=dict)
    wanted: dict[str, set[Decimal]] = field(default_factory=dict)
    moves: list[tuple[datetime, str]] = field(default_factory=list)
    rules: set[tuple[str, Decimal, str]] = field(default_factory=set)
    remembered: HeldChange | None = None
    lifted_until: datetime | None = None
    effects_seen: int = 0
    events: int = 0

    def skus(self) -> list[str]:
        """Return every part that is listed."""
        return [
            sku for (sku,) in self.world.ask("SELECT sku FROM product_sync_schedule ORDER BY 1")
        ]

    def was_shown(self, shown: HeldChange, rulings: Iterable[Any]) -> None:
        """Check that a decision was about the price that the person was shown."""
        for ruling in rulings:
            price = (ruling.new or {}).get("price")
            if ruling.is_done and shown.can_approve and price is not None:
                is_shown = Decimal(price) == shown.price_new
                self._require(is_shown, f"{price} was decided, {shown.price_new} was shown")

    def let_pass(self, rulings: Iterable[Any], *, lifts_guard: bool = False) -> None:
        """Remember the prices that a person let pass."""
        for ruling in rulings:
            price = (ruling.new or {}).get("price")
            if ruling.is_done and price is not None:
                self.approved.setdefault(ruling.sku, set()).add(Decimal(price))
        if lifts_guard:
            self.lifted_until = self.world.clock.now() + DAY

    # -- after every event -------------------------------------------------------------------

    def check(self) -> None:
        """Check what must hold at any moment."""
        self.events += 1
        now, laws = self.world.clock.now(), LawChecks(self.world.pool)
        self._note_rules()
        lost, harmful = laws.lost(now), laws.harmful("USD")
        self._require(not lost.count, f"L6: {lost.examples}")
        self._require(not harmful.count, f"L9: {harmful.examples}")
        self._check_effects(now)
        self._check_moves(now)

    def _check_effects(self, now: datetime) -> None:
        """Check each price that was written to the shop."""
        effects = self.world.shop.effects
        for effect in effects[self.effects_seen :]:
            if effect.kind == "price":
                self._check_price(effect, now)
        self.effects_seen = len(effects)

    def _check_price(self, effect: Any, now: datetime) -> None:
        sku, new, old = self._sku_of(effect), effect.new, effect.old
        ours = self.ours.setdefault(sku, set())
        if new in self.approved.get(sku, set()) or new in ours:
            ours.add(new)
            return
        self._require(new > 0, f"L9: {sku} is sold at {new}")
        # A merchant's edit is undone, also where the price before it was the merchant's own.
        is_restored = old in self.edited.get(sku, ()) and new in self.wanted.get(sku, ())
        is_known = is_restored or new in self._possible(sku)
        self._require(is_known, f"L9: nobody quoted {new} of {sku}")
        if isinstance(old, Decimal) and old > 0:  # a product that is made begins at nothing
            bases = {old, *self.approved.get(sku, set())}
            if old in self.edited.get(sku, set()):
                bases |= ours | self.wanted[sku]  # it was ours before the merchant's edit
            is_near = any(abs(new - base) <= HALF * base for base in bases)
            self._require(is_near, f"L9: {sku} went from {old} to {new} unseen")
            if not ours:
                self.moves.append((now, sku))
        ours.add(new)

    def _check_moves(self, now: datetime) -> None:
        """Check that no mass change passed unseen."""
        rows = self._rows()
        for row in rows:
            price = (row["desired"] or {}).get("price")
            if price is None:
                continue
            sku, old, new = row["sku"], self.desired.get(row["sku"]), Decimal(price)
            self.desired[sku] = new
            self.wanted.setdefault(sku, set()).add(new)
            view = self.world.shop.shown("acme.myshopify.com", sku)
            is_kept = view is not None and view.price == new
            if old not in {None, new} and not is_kept and new not in self.approved.get(sku, ()):
                self.moves.append((now, sku))
        self.moves = [(at, sku) for at, sku in self.moves if at > now - DAY]
        if self.lifted_until is not None and now < self.lifted_until + DAY:
            return
        count, catalog = len({sku for _, sku in self.moves}), sum(row["is_active"] for row in rows)
        most = max(MASS_MIN, catalog // 4 + 1) - 1
        self._require(count <= most, f"L9: {count} prices of {catalog} moved within a day unseen")

    # -- once all is read and written --------------------------------------------------------

    def check_settled(self, since: datetime) -> None:
        """Check that the shop shows what the supplier quoted last, or that a person is asked."""
        now = self.world.clock.now()
        if self.world.ask(PAUSED, now)[0][0] or any(g.is_down for g in self.world.gates.values()):
            return
        for row in self._rows():
            is_read = row["read_at"] is not None and row["read_at"] >= since
            is_pushed = row["push_at"] is None and row["desired"] is not None
            if is_read and is_pushed and row["is_active"] and not row["is_paused"]:
                self._check_listing(row)

    def _check_listing(self, row: Row) -> None:
        sku, held = row["sku"], row["held_reason"] or ""
        part, view = self._last(sku), self.world.shop.shown("acme.myshopify.com", sku)
        self._require(view is not None, f"L6: {sku} is not in the shop")
        assert view is not None
        real = {place: part.stock.get(place, 0) for place in row["desired"]["quantities"]}
        for place, count in real.items():
            shown = view.quantities.get(place, 0)
            self._require(
                shown <= count or MASS_STOCK in held,
                f"L6: the shop sells {shown} of {sku} at {place}, there are {count} ({held})",
            )
        is_rejected = row["rejected"] is not None
        stock = row["desired"]["quantities"]
        if not held and not is_rejected:
            self._require(stock == real, f"L6: stock of {sku} is {stock}, quoted {real}")
            price = Decimal(row["desired"]["price"])
            expected = self._possible(sku) | self.approved.get(sku, set())
            self._require(price in expected, f"L6: {sku} is {price}, never quoted")

    # -- the parts ---------------------------------------------------------------------------

    def _rows(self) -> list[Row]:
        return [dict(zip(NAMES, row, strict=True)) for row in self.world.ask(STATES)]

    def _last(self, sku: str) -> SupplierPart:
        return self.world.catalog.quoted[sku][-1]

    def _note_rules(self) -> None:
        """Remember the price rules that held at any time."""
        settings = self.world.app.settings
        rows = self.world.ask(TERMS)
        basis, markup, rounding = rows[0] if rows else (None, None, None)
        self.rules.add(
            (
                basis or settings.price_basis,
                settings.markup if markup is None else markup,
                rounding or settings.rounding,
            )
        )

    def _possible(self, sku: str) -> set[Decimal]:
        """Return every price that follows from a quote and a price rule there ever was."""
        return {
            ReferenceReader(
                places={},
                currency="USD",
                shown_prices=self.world.supplier.shown_prices,
                markup=markup,
                basis=basis,
                rounding=rounding,
            )
            .see(part)
            .price
            for basis, markup, rounding in self.rules
            for part in map(_believed, self.world.catalog.quoted.get(sku, ())[-6:])
            if part.list_price or part.net_price
        }

    def _sku_of(self, effect: Any) -> str:
        shop = self.world.shop.shop(effect.shop)
        product = shop.products.get(effect.id)
        variant = product.variants[0] if product else shop.items.get(effect.id, effect.id)
        return str(shop.variants[variant].sku)

    def _require(self, holds: object, text: str) -> None:
        if not holds:
            raise BrokenLawError(text)


def _believed(part: SupplierPart) -> SupplierPart:
    """Return a part without prices that cannot be meant, as it is used once it was approved."""
    prices = (part.list_price, part.net_price)
    listed, net = (None if price is None or not 0 < price < 10**9 else price for price in prices)
    return replace(part, list_price=listed, net_price=net)
