"""Law checks at the shops: each effect is checked at the moment it happens.

They compare the shop's own log, the intents that are stored at that moment, and the supplier's real
data; never what a pusher believes.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from headway.clock import Clock
from headway.core.catalog.storefront import PushLease, Shop
from headway_lab.simulation.desired_versions import DesiredVersions, MayWait
from headway_lab.simulation.evidence import OpenIntent, ScheduleEvidence
from headway_lab.simulation.figures import Figures
from headway_lab.simulation.pauses import PauseChecks
from headway_lab.simulation.shops import Shops, ShownListing
from headway_lab.simulation.violation_log import ViolationLog
from headway_lab.simulators.shopify.request import ShopEffect

# Which intents may have an effect of which kind.
COVERED_BY = {
    "price": ("price", "bulk"),
    "cost": ("price", "bulk"),
    "compare_at": ("price", "bulk"),
    "stock": ("stock", "activate"),
    "status": ("status",),
}
CENT = Decimal("0.01")


@dataclass(slots=True, kw_only=True)
class _Lease:
    """Which pusher holds a shop, under which fence, and until when by the true clock."""

    owner: str
    fence: int
    until_s: float
    is_over: bool = False


class ShopLaws:
    """Checks every push and every effect against the laws."""

    def __init__(
        self,
        *,
        violations: ViolationLog,
        evidence: ScheduleEvidence,
        clock: Clock,
        shops: Shops,
        versions: DesiredVersions,
        figures: Figures,
        guard_move: Decimal,
        pauses: PauseChecks,
        may_leave_sale: Callable[[ShownListing], bool],
        unwritable: Collection[str] = (),
    ) -> None:
        self._violations = violations
        self._evidence = evidence
        self._clock = clock
        self._shops = shops
        self._versions = versions
        self._figures = figures
        self._guard_move = guard_move
        self._pauses = pauses
        self._may_leave_sale = may_leave_sale
        self._unwritable = unwritable
        self._leases: dict[str, _Lease] = {}
        self._written: dict[tuple[str, str], int] = {}
        self._open: tuple[tuple[int, float], list[OpenIntent]] = ((-1, -1.0), [])
        self._refusals = 0
        self.refused = 0
        shops.simulator.on_effect = self.happened
        violations.enable(("L1", "L5", "L6", "L7", "L8", "L9", "L10"))
        if unwritable:
            violations.enable(("L16",))

    # -- visits ------------------------------------------------------------------------------

    def claimed(self, push_lease: PushLease, *, owner: str, lease_s: float) -> None:
        """Check that the shop may be written to, and that no other lease is live."""
        self._pauses.visited(push_lease.shop.user_id)
        now_s, shop = self._clock.monotonic(), push_lease.shop
        old = self._leases.get(shop.id)
        if old is not None and not old.is_over and now_s < old.until_s:
            self._violations.add("L5", f"{owner} is at {shop.domain} while {old.owner} is")
        if old is not None and push_lease.fence <= old.fence:
            self._violations.add("L5", f"{owner} is at {shop.domain} under an old fence")
        unexpected_products = [
            change.sku for change in push_lease.changes if change.user_id != shop.user_id
        ]
        if unexpected_products:
            self._violations.add(
                "L10", f"{unexpected_products[0]} is not {shop.user_id}'s to be pushed"
            )
        self._leases[shop.id] = _Lease(owner=owner, fence=push_lease.fence, until_s=now_s + lease_s)

    def settled(self, push_lease: PushLease, *, is_ours: bool, keeps_lease: bool) -> None:
        """Check that a settle was accepted exactly if the lease was still live."""
        lease = self._leases[push_lease.shop.id]
        was_ours = lease.fence == push_lease.fence and not lease.is_over
        if is_ours is not was_ours:
            verdict = "taken" if is_ours else "refused"
            self._violations.add(
                "L5", f"a settle for {push_lease.shop.domain} was {verdict} by mistake"
            )
        lease.is_over |= was_ours and not keeps_lease
        self.refused += not is_ours
        self.check_limit()

    def gave_up(self, shop: Shop, reason: str) -> None:
        """Record that a shop was disconnected: all pending changes of it are lost."""
        self._violations.add("L6", f"{shop.domain} was given up: {reason}")

    def check_limit(self) -> None:
        """Check whether a shop had to refuse a call."""
        refusals = self._shops.simulator.refusals
        if refusals > self._refusals:
            count = refusals - self._refusals
            self._violations.add("L1", "a shop refused a call beyond its limit", count=count)
            self._refusals = refusals

    # -- effects -----------------------------------------------------------------------------

    def happened(self, effect: ShopEffect) -> None:
        """Check one facet of a write that a shop has just accepted."""
        shop_listing, facet = self._shops.listing_of(effect), self._shops.facet_of(effect)
        if shop_listing is None or effect.kind not in COVERED_BY:
            self._violations.add(
                "L10", f"{effect.kind} of {effect.id} in {effect.shop} has no owner"
            )
            return
        self._check_intent(effect, shop_listing, facet)
        self._check_desired(effect, shop_listing, facet)
        if effect.kind == "price":
            self._check_price(effect, shop_listing)
        shop_listing.write(facet, effect.new)
        self.moved(shop_listing)

    def moved(self, shop_listing: ShownListing) -> None:
        """Pass what a shop shows now to the figures."""
        now_s = self._clock.monotonic()
        self._versions.shown(shop_listing.id, now_s)
        self._figures.shown(shop_listing.id, now_s)

    def changed_by_hand(self, shop_listing: ShownListing, facet: str) -> None:
        """Record an edit by hand: writing the facet again is no second effect."""
        self._written.pop((shop_listing.id, facet), None)
        self.moved(shop_listing)

    def check_versions(self, may_wait: MayWait) -> int:
        """Check that nothing desired is on its way for longer than it may; return how many.

        Beside products that spoil every call, the others are written in time too (L16).
        """
        now_s, count = self._clock.monotonic(), 0
        for shop_listing, since_s, left in self._versions.overdue(may_wait):
            if shop_listing.sku in self._unwritable:
                continue
            count += 1
            wait_min = (now_s - since_s) / 60
            text = (
                f"{left[0]} of {shop_listing.sku} is desired since {wait_min:.1f} min and not shown"
            )
            self._violations.add("L16" if self._unwritable else "L6", text)
        return count

    def check_shop_listings(self, may_stay: MayWait) -> None:
        """Check that the shops show only desired values, apart from a merchant's recent edits."""
        for shop_listing, facet, expected in self._versions.unexpected(may_stay):
            shown = shop_listing.shop_fields[facet]
            self._violations.add(
                "L6", f"{facet} of {shop_listing.sku} is {shown}, and {expected} is desired"
            )

    def close(self) -> None:
        """Check the limits once more, and the shops' own data and logs."""
        self.check_limit()
        for text in self._shops.unexpected_products():
            self._violations.add("L6", text)
        for effect in self._shops.simulator.double_writes():
            at_min = effect.at_s / 60
            self._violations.add(
                "L7", f"{effect.kind} of {effect.id} was there at {at_min:.1f} min"
            )

    # -- the parts ---------------------------------------------------------------------------

    def _check_intent(self, effect: ShopEffect, shop_listing: ShownListing, facet: str) -> None:
        """Check that the write matches an intent that was stored before sending."""
        fitting = [
            intent for intent in self._intents(effect) if _covers(intent, effect, shop_listing.sku)
        ]
        if any(intent.user_id == shop_listing.seller for intent in fitting):
            return
        if fitting:
            other = fitting[0].user_id
            self._violations.add(
                "L10", f"{facet} of {shop_listing.seller}/{shop_listing.sku} written for {other}"
            )
        else:
            self._violations.add(
                "L7", f"{facet} of {shop_listing.sku} was written and no intent is stored"
            )

    def _intents(self, effect: ShopEffect) -> list[OpenIntent]:
        """Return the intents that are open now; all facets of one request share one query."""
        key = (effect.request, self._clock.monotonic())
        if self._open[0] != key:
            self._open = (key, self._evidence.open_intents())
        return self._open[1]

    def _check_desired(self, effect: ShopEffect, shop_listing: ShownListing, facet: str) -> None:
        """Check that the value was desired, is the newest, and was not written before."""
        number = self._versions.first_version_with(shop_listing.id, facet, effect.new)
        if number is None:
            self._violations.add(
                "L6", f"{facet} of {shop_listing.sku} is {effect.new}, which was not desired"
            )
        else:
            written = self._written.get((shop_listing.id, facet), -1)
            if number <= written:
                which = "again" if number == written else "over a newer one"
                self._violations.add("L7", f"{facet} of {shop_listing.sku} was written {which}")
            self._written[shop_listing.id, facet] = number
        self._check_blame(effect, shop_listing, facet, number)

    def _check_blame(
        self, effect: ShopEffect, shop_listing: ShownListing, facet: str, number: int | None
    ) -> None:
        """Check that a part leaves the sale only on evidence of its own, or because it is gone."""
        if effect.kind == "stock" and effect.new == 0:
            shop_fields = (
                None if number is None else self._versions.version(shop_listing.id, number).reported
            )
            is_true = shop_fields is not None and shop_fields[facet] == 0
        else:
            is_true = effect.kind != "status" or effect.new == "ACTIVE"
        if not is_true and not self._may_leave_sale(shop_listing):
            self._violations.add(
                "L8", f"{facet} of {shop_listing.sku} is {effect.new} without evidence"
            )

    def _check_price(self, effect: ShopEffect, shop_listing: ShownListing) -> None:
        """Check a price against the one before, or ours if a merchant edited it in between."""
        _, old = shop_listing.changed_by_hand.get("price", (0.0, effect.old))
        new = effect.new
        if not isinstance(new, Decimal) or new <= 0:
            self._violations.add("L9", f"{shop_listing.sku} is sold at {new}")
        elif isinstance(old, Decimal) and abs(new - old) > self._guard_move * old:
            self._violations.add(
                "L9", f"{shop_listing.sku} went from {old} to {new} without approval"
            )


def _covers(intent: OpenIntent, effect: ShopEffect, sku: str) -> bool:
    """Return True if an intent announces exactly this write."""
    return (
        intent.kind in COVERED_BY[effect.kind]
        and sku in intent.skus
        and any(write["sku"] == sku and _says(write, effect) for write in intent.writes)
    )


def _says(write: dict[str, Any], effect: ShopEffect) -> bool:
    if effect.kind == "stock":
        return bool(write["location"] == effect.location and write["quantity"] == effect.new)
    text = write[effect.kind]
    if isinstance(effect.new, Decimal):
        return text is not None and Decimal(text).quantize(CENT) == effect.new
    return bool(text == effect.new)
