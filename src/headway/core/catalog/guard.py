"""The guard (law L9): which changes reach a shop by themselves, and which wait for a person.

A price that moves too far, a quote that contradicts itself, or too many new prices within a day,
is held. Stock is updated all the same, for a missed change sells what does not exist. Two things
hold stock back: too many parts that run out within a day, and a quote whose stock is in doubt.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from headway.core.catalog.change_detection import (
    THEIRS,
    HeldQuote,
    Observed,
    Terms,
    desire,
    money,
)
from headway.core.catalog.channels import read_names
from headway.core.catalog.doubts import MARKS, believed_stock, find_doubts, marked, unapproved
from headway.core.catalog.listings import Listing

DAY = timedelta(days=1)
# In a small catalog this many listings may change within a day, whatever their share.
MASS_MIN = 20
OFFER = ("price", "cost", "compare_at")
# Between the reasons of one hold.
SEPARATOR = "; "

State = Mapping[str, Any]


class MassChange(StrEnum):
    """What may not happen to too much of a catalog within a day, in the words of the hold.

    By these words a hold is recognized: a mass change stays held when its day has passed.
    """

    PRICES = "prices changed within a day"
    STOCK = "parts ran out of stock within a day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """How far a price may move, and how much of a catalog within a day; a share of 1 is all."""

    move_max: Decimal = Decimal("0.50")
    share_max: Decimal = Decimal("0.25")

    def mass_least(self, catalog_count: int) -> int:
        """Return how many moves within a day make a mass change."""
        return max(MASS_MIN, int(self.share_max * catalog_count) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SellerSettings:
    """A seller's terms and guard, and how much of the catalog changed within a day."""

    terms: Terms
    guard: Guard = Guard()
    catalog_count: int = 0
    changed_count: Mapping[MassChange, int] = field(default_factory=dict)
    mass_approved_until: datetime | None = None

    def find_mass(
        self, kind: MassChange, listing: Listing, new: State, now: datetime
    ) -> str | None:
        """Return the reason if this change exceeds the mass limit or is already held for it."""
        if listing.desired is None or kind not in mass_changes(listing.desired, new):
            return None
        if self._lets_pass(now):
            return None
        for reason in (listing.held_reason or "").split(SEPARATOR):
            if kind in reason:
                return reason
        count = self.changed_count.get(kind, 0) + (not has_changed_lately(listing, kind, now))
        return self._exceeded(count, kind)

    def find_takeover(self, first_count: int, now: datetime) -> str | None:
        """Return the reason if the first prices of this many parts of a shop are a mass change."""
        if self._lets_pass(now):
            return None
        count = self.changed_count.get(MassChange.PRICES, 0) + first_count
        return self._exceeded(count, f"first {MassChange.PRICES}")

    def _lets_pass(self, now: datetime) -> bool:
        """Return True if a mass change is not held, by the terms or by a person's approval."""
        approved_until = self.mass_approved_until
        return self.guard.share_max >= 1 or (approved_until is not None and approved_until > now)

    def _exceeded(self, count: int, what: str) -> str | None:
        if count < self.guard.mass_least(self.catalog_count):
            return None
        share = _percent(self.guard.share_max)
        return f"{count:,} of {self.catalog_count:,} {what}, more than {share}"

    def counting(self, kinds: Iterable[MassChange]) -> "SellerSettings":
        """Return these settings with one more change of each of these kinds."""
        counts = {kind: self.changed_count.get(kind, 0) + 1 for kind in kinds}
        return replace(self, changed_count={**self.changed_count, **counts})


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """Result of applying a quote to a listing; a desired state of None does not change it."""

    desired: State | None = None
    proposed: State | None = None
    rejected: State | None = None
    held_reason: str | None = None


def weigh(listing: Listing, observed: Observed, settings: SellerSettings, now: datetime) -> Weighed:
    """Decide what of an observation becomes desired, and what waits for a person."""
    computed, old = desire(observed, settings.terms), listing.desired
    doubts = find_doubts(listing, observed, settings.terms)
    pending = unapproved(doubts, old)
    reasons = list(dict.fromkeys(doubt.reason for doubt in pending))
    published = _published(listing, settings.terms)
    new: State | None
    if isinstance(computed, HeldQuote):
        new, offer = None, _unpriced(observed)
        reasons.insert(0, computed.reason)
    else:
        ours = {*MARKS, THEIRS, "compare_at", "channels"}
        others = {name: old[name] for name in old if name not in ours} if old else {}
        new = offer = marked({**others, **computed.as_json(), **published}, doubts)
    is_refused = listing.rejected is not None and is_same_offer(offer, listing.rejected)
    if old is None:  # nothing to compare with
        if is_refused and reasons:
            return Weighed(rejected=listing.rejected)
        if reasons:
            return Weighed(proposed=new, held_reason=SEPARATOR.join(reasons))
        return Weighed(desired=new)
    stock = believed_stock(old["quantities"], observed, old.get("pack", 1), pending)
    unpublished = {name: old[name] for name in old if name != "channels"}
    kept = {**unpublished, **published, "quantities": stock}
    if new is not None and not reasons and (move := _find_move(listing, new, settings.guard)):
        reasons.append(move)
    if is_refused:
        new, reasons = kept, []
    desired = kept if reasons or new is None else new
    if mass := settings.find_mass(MassChange.PRICES, listing, desired, now):
        reasons, desired = [mass], kept
    if mass := settings.find_mass(MassChange.STOCK, listing, desired, now):
        reasons, desired = [*reasons, mass], {**kept, "quantities": old["quantities"]}
    return Weighed(
        desired=desired,
        proposed=new if reasons else None,
        rejected=listing.rejected if is_refused or new is None else None,
        held_reason=SEPARATOR.join(reasons) or None,
    )


def hold_publication(
    listing: Listing, observed: Observed, weighed: Weighed, reason: str
) -> Weighed:
    """Hold a part that may not be published, unless a person has rejected this very quote.

    What was desired before goes on: its price, and above all its stock.
    """
    if listing.desired is None:
        weighed = replace(weighed, desired=None)
    rejected = listing.rejected
    if weighed.rejected is not None and weighed.held_reason is None:
        return weighed
    if rejected is not None and is_same_offer(_unpriced(observed), rejected):
        return replace(weighed, rejected=rejected)
    return replace(weighed, held_reason=weighed.held_reason or reason)


def mass_changes(old: State, new: State) -> set[MassChange]:
    """Return what of a change the guard against mass changes counts."""
    changes = set()
    if money(old, "price") != money(new, "price"):
        changes.add(MassChange.PRICES)
    if any(old["quantities"].values()) and not any(new["quantities"].values()):
        changes.add(MassChange.STOCK)
    return changes


def has_changed_lately(listing: Listing, kind: MassChange, now: datetime) -> bool:
    """Return True if the listing was counted for this kind of change within the last day."""
    changed_at = listing.moved_at if kind is MassChange.PRICES else listing.emptied_at
    return changed_at is not None and changed_at > now - DAY


def is_same_offer(state: State, other: State) -> bool:
    """Return True if two states ask the same money for the same pack, with the same doubts."""
    return all(state.get(fact) == other.get(fact) for fact in ("currency", *MARKS)) and all(
        money(state, fact) == money(other, fact) for fact in OFFER
    )


def find_move(old: Decimal, new: Decimal, move_max: Decimal) -> str | None:
    """Return the reason if a price change exceeds the limit, otherwise None."""
    if abs(new - old) <= move_max * old:
        return None
    if old <= 0:
        return f"the price would move from {old} to {new}"
    way = "fall" if new < old else "rise"
    share = f"{abs(new - old) / old * 100:,.1f} %"
    allowed = _percent(move_max)
    return f"the price would {way} by {share}, from {old} to {new}; more than {allowed} is held"


def _find_move(listing: Listing, new: State, guard: Guard) -> str | None:
    """Return the reason if a price moves too far from what is desired, or from what the shop shows.

    A desired price that is itself far from the shop's was approved by a person, and counts alone.
    """
    old = listing.desired
    assert old is not None, "a first price is compared with the shop's own"
    if old["currency"] != new["currency"]:
        return f"the currency would change from {old['currency']} to {new['currency']}"
    before, after = Decimal(old["price"]), Decimal(new["price"])
    reason = find_move(before, after, guard.move_max)
    if reason or before == after or listing.applied_price is None:
        return reason
    shown = Decimal(listing.applied_price)
    is_approved = find_move(shown, before, guard.move_max) is not None
    return None if is_approved else find_move(shown, after, guard.move_max)


def _published(listing: Listing, terms: Terms) -> dict[str, Any]:
    """Return the channels on which a listing should be visible, if that is ours to say.

    What a merchant made and published is the merchant's, unless an import names its channels.
    """
    text = listing.channels or (terms.channels if listing.is_published else "none")
    names = read_names(text)
    return {"channels": list(names)} if names else {}


def _unpriced(observed: Observed) -> State:
    """Return a quote without a usable price in the form in which a person refuses it."""
    quote = observed.as_json()
    return {"price": None, "cost": quote["net_price"], "currency": quote["currency"]}


def _percent(share: Decimal) -> str:
    return f"{(share * 100).normalize():,f} %"
