"""Decisions about one listing that people make: approve, reject, roll back, trigger.

Each returns a ruling: what changes, or why nothing does. A decision applies to the change that the
person was shown: its version is sent along, and a change with another version is left as it is.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from headway.core.catalog.change_detection import money
from headway.core.catalog.doubts import MARKS
from headway.core.catalog.listings import SellerId, Sku
from headway.core.pauses import Pause
from headway.core.reasons import describe_pause

MONEY = ("price", "cost", "compare_at")
# What a person is shown of a state and decides by; the exact stock changes too often.
SHOWN = ("currency", "status", *MARKS)
QUOTED = ("list_price", "net_price")
VERSION_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """Result of a person's command for one listing: done, or unchanged and why.

    `version` differs if the change differs; it is None where there is none to decide about.
    """

    seller: SellerId
    sku: Sku
    is_done: bool
    """True if it was done."""
    message: str
    """What was done, or why not. Example: `approved`"""
    old: Mapping[str, Any] | None = None
    """The shop's data before; null if there is none.
    Example: `{"price": "118.00", "currency": "USD"}`
    """
    new: Mapping[str, Any] | None = None
    """The shop's data after; null if there is none.
    Example: `{"price": "129.90", "currency": "USD"}`
    """
    version: str | None = None
    """The version of the change that was decided; null if there was none.
    Example: `5f0c1e2ab94d7733`
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersions:
    """The versions that a person was shown: of each part, or one of all parts together.

    The version of a part of which nothing was shown is empty.
    """

    by_sku: Mapping[Sku, str] = field(default_factory=dict)
    total: str | None = None

    def check(self, ruling: Ruling) -> Ruling:
        """Return the ruling, or one that leaves a listing whose change is not the one shown."""
        shown = self.by_sku.get(ruling.sku)
        if shown is None or shown == ruling.version or not (shown or ruling.is_done):
            return ruling
        price = (ruling.new or {}).get("price")
        current = "nothing to decide" if ruling.version is None else "without a price"
        now = f"it is now {price}" if price is not None else f"there is now {current}"
        return replace(
            ruling,
            is_done=False,
            new=None,
            message=f"has changed since it was shown: {now}; look at it again",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedListing:
    """The state of a listing that a person decides about."""

    user_id: SellerId
    sku: Sku
    observed: Mapping[str, Any] | None = None
    desired: Mapping[str, Any] | None = None
    proposed: Mapping[str, Any] | None = None
    rejected: Mapping[str, Any] | None = None
    held_reason: str | None = None

    def quoted(self) -> Mapping[str, Any] | None:
        """Return the state that the supplier's quote leads to, in the form fetch compares."""
        if self.held_reason is None:
            return self.rejected or self.desired
        observed = self.observed or {}
        unpriced = {
            "price": None,
            "cost": observed.get("net_price"),
            "currency": observed.get("currency"),
            "compare_at": None,
        }
        return self.proposed or unpriced

    @property
    def held_version(self) -> str | None:
        """The version of the held change, or None if nothing is held."""
        if self.held_reason is None:
            return None
        return version_of(self.desired, self.proposed or self.observed)

    def ruled(
        self, message: str, new: Mapping[str, Any] | None = None, version: str | None = None
    ) -> Ruling:
        """Return the ruling that changes the state to `new`, or leaves it."""
        return Ruling(
            seller=self.user_id,
            sku=self.sku,
            is_done=new is not None,
            message=message,
            old=self.desired,
            new=new,
            version=version or self.held_version,
        )


def version_of(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> str:
    """Return a short text that differs if what a person is shown of a change differs."""
    return _digest([_shown(old), _shown(new)])


def total_version(rulings: Iterable[Ruling]) -> str:
    """Return one version for the changes of many listings."""
    return _digest(sorted([one.seller, one.sku, one.version or ""] for one in rulings))


def _shown(state: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if state is None:
        return None
    amounts = {name: money(state, name) for name in (*MONEY, *QUOTED)}
    return {
        **{name: state[name] for name in SHOWN if name in state},
        **{
            name: format(value.normalize(), "f")
            for name, value in amounts.items()
            if value is not None
        },
        "in_stock": any((state.get("quantities") or {}).values()),
    }


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=VERSION_BYTES).hexdigest()


def approve(state: ReviewedListing) -> Ruling:
    """Apply a held change, with the stock and status that the shop shows now."""
    if state.held_reason is None:
        return state.ruled("nothing is held")
    if state.proposed is None:
        return state.ruled(
            f"cannot be approved ({state.held_reason}); reject it, or wait for the next read"
        )
    new, shown = dict(state.proposed), state.desired or {}
    if "status" in shown:  # whether it is on sale is another question
        new["status"] = shown["status"]
    if "quantities" in shown and not any(shown["quantities"].values()):
        new["quantities"] = shown["quantities"]  # gone since it was proposed
    return state.ruled("approved", new)


def reject(state: ReviewedListing) -> Ruling:
    """Leave the shop as it is; the same quote is not held again."""
    if state.held_reason is None:
        return state.ruled("nothing is held")
    return state.ruled("rejected", state.quoted())


def roll_back(state: ReviewedListing, past: Mapping[str, Any] | None) -> Ruling:
    """Return to the price that the shop showed in the past; stock stays."""
    if past is None or past.get("price") is None or state.desired is None:
        return state.ruled("the shop's history does not reach back to that time")
    currency = past.get("currency") or state.desired["currency"]
    if Decimal(past["price"]) <= 0 or currency != state.desired["currency"]:
        return state.ruled(f"the shop asked {past['price']} {currency} then, no price for it now")
    # A fact that the history does not know stays, but what was not crossed out then is not now,
    # unless the crossed-out price is the merchant's own.
    owned = [name for name in (*MONEY, "currency") if name in state.desired]
    facts = {name: past[name] for name in owned if past.get(name) is not None}
    cleared = {"compare_at": None} if "compare_at" in state.desired else {}
    new = {**state.desired, **cleared, **facts}
    if all(money(state.desired, name) == money(new, name) for name in MONEY):
        return state.ruled("shows that price already")
    return state.ruled("rolled back", new, version_of(state.desired, new))


def trigger(
    listing: tuple[SellerId, Sku],
    *,
    status: str,
    is_active: bool,
    is_first: bool,
    pause: Pause | None,
    now: datetime,
) -> Ruling:
    """Make a listing due at once, unless it is off or in a call; `is_first` if it is already."""
    is_done = not is_first
    if status == "parked":
        is_done, message = False, "parked; revive it"
    elif not is_active:
        is_done, message = False, "switched off; publish it again"
    elif status == "syncing":
        is_done, message = False, "is in a call now"
    elif pause is not None:
        message = f"{describe_pause(pause, now)}; is in the first call after that"
    else:
        message = "is in the next call"
    user_id, sku = listing
    return Ruling(seller=user_id, sku=sku, is_done=is_done, message=message)
