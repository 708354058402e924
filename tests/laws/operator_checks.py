"""What is checked after every event of an operator's world: laws L6 and L9, by other means.

What the supplier has quoted is read by the simulation's reference reader. What was written to the
shop is read in the shop's own log. What a person was shown is remembered here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from headway.core.catalog.change_detection import THEIRS
from headway.core.catalog.guard import MASS_MIN
from headway.store.catalog.review import HeldChange
from headway.store.monitoring.law_checks import LawChecks
from headway_lab.simulation.truth import ReferenceReader
from headway_lab.simulators.boeing import SupplierPart

DAY = timedelta(days=1)
HALF = Decimal("0.5")
MASS_STOCK = "ran out of stock"
STATES = """
SELECT row.user_id, row.sku, row.is_active, row.sync_status, row.last_successful_sync,
  row.consecutive_failures, row.missing_count, row.is_paused, state.observed,
  state.desired, state.applied, state.held_reason, state.rejected, state.proposed,
  state.push_at, state.push_error
FROM product_sync_schedule AS row LEFT JOIN listing_state AS state USING (user_id, sku)
ORDER BY row.user_id, row.sku
"""
NAMES = (
    "seller", "sku", "is_active", "sync_status", "read_at", "failures", "missing", "is_paused",
    "observed", "desired", "applied", "held_reason", "rejected", "proposed", "push_at",
    "push_error",
)  # fmt: skip
PAUSED = "SELECT EXISTS (SELECT FROM pauses WHERE until IS NULL OR until > %s)"
TERMS = "SELECT user_id, price_basis, markup, rounding FROM profiles"
LISTED = "SELECT user_id, sku FROM product_sync_schedule ORDER BY 1, 2"
Row = dict[str, Any]
Key = tuple[str, str]


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
    domains: dict[str, str]
    in_rehearsal: set[str]

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement."""


@dataclass
class Checks:
    """The checks, and what they remember of each part of each seller."""

    world: CheckedWorld
    approved: dict[Key, set[Decimal]] = field(default_factory=dict)
    edited: dict[Key, set[Decimal]] = field(default_factory=dict)
    ours: dict[Key, set[Decimal]] = field(default_factory=dict)
    desired: dict[Key, Decimal] = field(default_factory=dict)
    wanted: dict[Key, set[Decimal]] = field(default_factory=dict)
    moves: list[tuple[datetime, Key]] = field(default_factory=list)
    rules: set[tuple[str, str, Decimal, str]] = field(default_factory=set)
    removed: dict[Key, int] = field(default_factory=dict)
    remembered: HeldChange | None = None
    lifted_until: dict[str, datetime] = field(default_factory=dict)
    effects_seen: int = 0
    events: int = 0

    def listed(self) -> list[Key]:
        """Return every part that is listed, with its seller."""
        return [(seller, sku) for seller, sku in self.world.ask(LISTED)]

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
                self.approved.setdefault((ruling.seller, ruling.sku), set()).add(Decimal(price))
            if ruling.is_done and lifts_guard:
                self.lifted_until[ruling.seller] = self.world.clock.now() + DAY

    def started(self, seller: str, report: Iterable[Any]) -> None:
        """Remember the prices of a report by which a person started a shop."""
        self.world.in_rehearsal.discard(seller)
        for listing in report:
            if listing.price_new is not None:
                self.approved.setdefault((seller, listing.sku), set()).add(listing.price_new)

    def was_removed(self, key: Key, *, in_call: bool) -> None:
        """Forget what was ours of a part: it is the merchant's own again.

        A write that was under way may still arrive.
        """
        self.removed[key] = int(in_call)
        for known in (self.approved, self.edited, self.ours, self.wanted):
            known.pop(key, None)
        self.desired.pop(key, None)

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
            seller = self._seller_of(effect)
            self._require(seller not in self.world.in_rehearsal, f"L9: {effect} before its start")
            if effect.kind == "price":
                self._check_price(effect, now)
        self.effects_seen = len(effects)

    def _check_price(self, effect: Any, now: datetime) -> None:
        key, new, old = self._key_of(effect), effect.new, effect.old
        if key in self.removed:
            self.removed[key] -= 1
            self._require(self.removed[key] >= 0, f"L9: {key[1]} was removed, and is now {new}")
            return
        ours = self.ours.setdefault(key, set())
        if new in self.approved.get(key, set()) or new in ours:
            ours.add(new)
            return
        self._require(new > 0, f"L9: {key[1]} is sold at {new}")
        self._require(new in self._possible(key), f"L9: nobody quoted {new} of {key[1]}")
        if isinstance(old, Decimal) and old > 0:  # a product that is made begins at nothing
            bases = {old, *self.approved.get(key, set())}
            if old in self.edited.get(key, set()):
                bases |= ours | self.wanted.get(key, set())  # ours before the merchant's edit
            is_near = any(abs(new - base) <= HALF * base for base in bases)
            self._require(is_near, f"L9: {key[1]} went from {old} to {new} unseen")
            if not ours:
                self.moves.append((now, key))
        ours.add(new)

    def _check_moves(self, now: datetime) -> None:
        """Check that no mass change passed unseen."""
        rows = self._rows()
        for row in rows:
            price, key = (row["desired"] or {}).get("price"), (row["seller"], row["sku"])
            if price is None or key in self.removed:
                continue
            old, new = self.desired.get(key), Decimal(price)
            self.desired[key] = new
            if not row["desired"].get(THEIRS):
                self.wanted.setdefault(key, set()).add(new)
            view = self.world.shop.shown(self.world.domains[key[0]], key[1])
            is_kept = view is not None and view.price == new
            if old not in {None, new} and not is_kept and new not in self.approved.get(key, ()):
                self.moves.append((now, key))
        self.moves = [(at, key) for at, key in self.moves if at > now - DAY]
        for seller in self.world.domains:
            if seller in self.lifted_until and now < self.lifted_until[seller] + DAY:
                continue
            count = len({key for _, key in self.moves if key[0] == seller})
            catalog = sum(row["is_active"] for row in rows if row["seller"] == seller)
            most = max(MASS_MIN, catalog // 4 + 1) - 1
            text = f"L9: {count} prices of {catalog} of {seller} moved within a day unseen"
            self._require(count <= most, text)

    # -- once all is read and written --------------------------------------------------------

    def check_settled(self, since: datetime) -> None:
        """Check that the shop shows what the supplier quoted last, or that a person is asked."""
        now = self.world.clock.now()
        if self.world.ask(PAUSED, now)[0][0] or any(g.is_down for g in self.world.gates.values()):
            return
        for row in self._rows():
            is_read = row["read_at"] is not None and row["read_at"] >= since
            is_pushed = row["push_at"] is None and row["desired"] is not None
            is_off = row["seller"] in self.world.in_rehearsal or not row["is_active"]
            if is_read and is_pushed and not is_off and not row["is_paused"]:
                self._check_listing(row)

    def _check_listing(self, row: Row) -> None:
        sku, held = row["sku"], row["held_reason"] or ""
        key = row["seller"], sku
        part = self._last(sku)
        view = self.world.shop.shown(self.world.domains[row["seller"]], sku)
        self._require(view is not None, f"L6: {sku} is not in the shop")
        assert view is not None
        stock = row["desired"]["quantities"]
        real = {place: part.stock.get(place, 0) for place in stock}
        is_rejected = row["rejected"] is not None
        shown = {place: view.quantities.get(place, 0) for place in real}
        # What left a location may be where Headway does not know it: a person is asked.
        unknown = sum(count for place, count in part.stock.items() if place not in real)
        is_over = any(shown[place] > count for place, count in real.items())
        if is_over and unknown and (held or is_rejected):
            is_over = sum(shown.values()) > sum(real.values()) + unknown
        text = f"L6: the shop sells {shown} of {sku}, there are {real} ({held})"
        self._require(not is_over or MASS_STOCK in held, text)
        if not held and not is_rejected:
            self._require(stock == real, f"L6: stock of {sku} is {stock}, quoted {real}")
            price = Decimal(row["desired"]["price"])
            expected = self._possible(key) | self.approved.get(key, set())
            self._require(price in expected, f"L6: {sku} is {price}, never quoted")

    # -- the parts ---------------------------------------------------------------------------

    def _rows(self) -> list[Row]:
        return [dict(zip(NAMES, row, strict=True)) for row in self.world.ask(STATES)]

    def _last(self, sku: str) -> SupplierPart:
        return self.world.catalog.quoted[sku][-1]

    def _note_rules(self) -> None:
        """Remember the price rules that held at any time."""
        settings = self.world.app.settings
        own = {seller: rule for seller, *rule in self.world.ask(TERMS)}
        for seller in self.world.domains:
            basis, markup, rounding = own.get(seller, (None, None, None))
            rule = (
                basis or settings.price_basis,
                settings.markup if markup is None else markup,
                rounding or settings.rounding,
            )
            self.rules.add((seller, *rule))

    def _possible(self, key: Key) -> set[Decimal]:
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
            for seller, basis, markup, rounding in self.rules
            for part in map(_believed, self.world.catalog.quoted.get(key[1], ())[-6:])
            if seller == key[0] and (part.list_price or part.net_price)
        }

    def _seller_of(self, effect: Any) -> str:
        return next(name for name, domain in self.world.domains.items() if domain == effect.shop)

    def _key_of(self, effect: Any) -> Key:
        shop = self.world.shop.shop(effect.shop)
        product = shop.products.get(effect.id)
        variant = product.variants[0] if product else shop.items.get(effect.id, effect.id)
        return self._seller_of(effect), str(shop.variants[variant].sku)

    def _require(self, holds: object, text: str) -> None:
        if not holds:
            raise BrokenLawError(text)


def _believed(part: SupplierPart) -> SupplierPart:
    """Return a part without prices that cannot be meant, as it is used once it was approved."""
    prices = (part.list_price, part.net_price)
    listed, net = (None if price is None or not 0 < price < 10**9 else price for price in prices)
    return replace(part, list_price=listed, net_price=net)
