"""Doubts about a quote: what contradicts itself, or what the shop's price was made from.

A doubtful quote is held for a person. A doubt that a person approved is kept in the desired state,
so that the same one is not held again; it ends when a quote without it is read. Until then stock is
believed only where that sells nothing that may not exist.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.core.catalog.change_detection import EACH, Observed, Terms
from headway.core.catalog.listings import BelievedStock, Doubt, Listing

State = Mapping[str, Any]
Stock = Mapping[str, int]

NO_LIST_PRICE = "list price"
# What a state knows about its quote beyond money and stock; each is left out if it is ordinary.
MARKS = ("unit", "pack", "doubts")


def find_doubts(listing: Listing, observed: Observed, terms: Terms) -> list[Doubt]:
    """Return every doubt about a quote for this listing, approved or not."""
    doubts = [*observed.doubts]
    if observed.unit != EACH and observed.unit not in terms.units:
        reason = f"sold by the unit {observed.unit}, which HEADWAY_UNITS does not explain"
        doubts.append(Doubt(kind=f"unit {observed.unit}", reason=reason))
    if listing.desired is None:
        return doubts + _unproven_pack(listing, observed)
    if terms.basis == "list" and _lost_list_price(listing, observed):
        reason = "the list price is missing; the price would be made from the net price"
        doubts.append(Doubt(kind=NO_LIST_PRICE, reason=reason, stock=BelievedStock.AS_READ))
    doubts += _other_pack(listing.desired, observed)
    return doubts + _unknown_locations(listing.desired["quantities"], observed)


def unapproved(doubts: Sequence[Doubt], desired: State | None) -> list[Doubt]:
    """Return the doubts that nobody has approved."""
    approved = (desired or {}).get("doubts", ())
    return [doubt for doubt in doubts if doubt.kind not in approved]


def marked(state: State, doubts: Sequence[Doubt]) -> dict[str, Any]:
    """Return a state that names its doubts, as it is proposed to a person."""
    kinds = sorted({doubt.kind for doubt in doubts})
    return {**state, "doubts": kinds} if kinds else dict(state)


def believed_stock(shown: Stock, observed: Observed, pack: int, doubts: Sequence[Doubt]) -> Stock:
    """Return the stock that the shop may show although the quote is doubtful."""
    read = observed.stock(pack)
    rules = {doubt.stock for doubt in doubts}
    if BelievedStock.KEPT in rules:
        return {place: shown.get(place, 0) for place in read}
    if BelievedStock.NONE in rules:
        return dict.fromkeys(read, 0)
    if BelievedStock.FALLEN in rules:
        read = {place: min(count, shown.get(place, 0)) for place, count in read.items()}
    if BelievedStock.MOVED in rules:
        left = sum(observed.unknown.values()) // pack
        for place in sorted(observed.unlisted):
            read[place] = min(shown.get(place, 0), left)
            left -= read[place]
    return read


def _lost_list_price(listing: Listing, observed: Observed) -> bool:
    """Return True if a price that was made from a list price would now come from the net price."""
    if observed.list_price is not None or observed.net_price is None:
        return False
    states = (listing.desired, listing.proposed, listing.rejected)
    return (listing.observed or {}).get("list_price") is not None or any(
        NO_LIST_PRICE in (state or {}).get("doubts", ()) for state in states
    )


def _unproven_pack(listing: Listing, observed: Observed) -> list[Doubt]:
    """Doubt that a product which we did not create is sold in the supplier's packs."""
    if listing.batch_id is not None or (observed.unit, observed.minimum) == (EACH, 1):
        return []
    reason = (
        f"the supplier sells it by {observed.minimum} {observed.unit}, and the shop's product may"
        " be a single piece"
    )
    return [Doubt(kind=f"pack of {observed.minimum} {observed.unit}", reason=reason)]


def _other_pack(desired: State, observed: Observed) -> list[Doubt]:
    old = (desired.get("unit", EACH), desired.get("pack", 1))
    new = (observed.unit, observed.minimum)
    if old == new:
        return []
    reason = f"sold by {new[1]} {new[0]}, before by {old[1]} {old[0]}"
    return [Doubt(kind=f"pack of {new[1]} {new[0]}", reason=reason)]


def _unknown_locations(shown: Stock, observed: Observed) -> list[Doubt]:
    """Doubt that stock is gone from a location while one with an unknown name has some."""
    gone = ", ".join(place for place in sorted(observed.unlisted) if shown.get(place))
    if not gone:
        return []
    stock = ", ".join(f"{name} has {count}" for name, count in sorted(observed.unknown.items()))
    reason = (
        f"unknown location: {stock}, and {gone} is not named; map it in HEADWAY_LOCATIONS, or"
        " leave it out with HEADWAY_LOCATIONS_UNSOLD"
    )
    return [
        Doubt(kind=f"location {name}", reason=reason, stock=BelievedStock.MOVED)
        for name in sorted(observed.unknown)
    ]
