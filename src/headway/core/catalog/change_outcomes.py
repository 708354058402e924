"""Result of an observed change in the shop: written, held, refused, or what it waits for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from headway.core.catalog.channels import visibility_change

WRITES = ("shopify_updated", "product_published")


class ChangeOutcome(StrEnum):
    """Result of a change in the shop."""

    WRITTEN = "written"
    WAITING = "waiting"
    HELD = "held"
    REFUSED = "refused"
    REJECTED = "rejected"
    REPLACED = "replaced"
    UNNEEDED = "unneeded"
    NO_SHOP = "no shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopEvent:
    """One event that shows the result of a change."""

    at: datetime
    kind: str
    old: Decimal | None
    new: Decimal | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopWait:
    """Why nothing is written to a shop for now, and until when; None until a person acts."""

    until: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStanding:
    """The current state of a listing at its supplier and in its shop."""

    price: Decimal | None = None
    applied: Decimal | None = None
    desired: Decimal | None = None
    held_reason: str | None = None
    is_due: bool = False
    due_at: datetime | None = None
    error: str = ""
    account: str | None = None
    account_reason: str = ""
    wait: ShopWait | None = None


def find_outcome(
    kind: str, events: Sequence[ShopEvent], now: ChangeStanding, *, is_newest: bool
) -> dict[str, Any]:
    """Return the result of a change, judged by the events up to the listing's next change."""
    writes = [event for event in events if event.kind in WRITES]
    if is_newest and kind == "held" and now.held_reason is not None:
        return {"fate": ChangeOutcome.HELD, "reason": now.held_reason, "shop_new": now.applied}
    if writes and not (is_newest and now.is_due):
        prices = {"shop_old": writes[0].old, "shop_new": writes[-1].new}
        return {"fate": ChangeOutcome.WRITTEN, "written_at": writes[-1].at, **prices}
    for event in events:
        if event.kind == "publish_blocked":
            return {"fate": ChangeOutcome.REFUSED, "reason": event.error}
        if event.kind == "change_rejected":
            return {"fate": ChangeOutcome.REJECTED, "reason": event.error, "shop_new": now.applied}
    if not is_newest:
        return {"fate": ChangeOutcome.REPLACED}
    return _open(now)


def _open(now: ChangeStanding) -> dict[str, Any]:
    """Return what a change waits for that the shop does not show yet."""
    prices = {"shop_old": now.applied, "shop_new": now.desired}
    if now.account is None:
        return {"fate": ChangeOutcome.NO_SHOP, "reason": "no shop is connected"}
    if not now.is_due:
        return {"fate": ChangeOutcome.UNNEEDED, "shop_new": now.applied}
    if now.account != "connected":
        return {
            "fate": ChangeOutcome.WAITING,
            "reason": f"disconnected: {now.account_reason}",
            **prices,
        }
    if now.wait is not None:
        waits = {"reason": now.wait.reason, "until": now.wait.until}
        return {"fate": ChangeOutcome.WAITING, **waits, **prices}
    if now.error:
        waits = {"reason": now.error, "until": now.due_at}
        return {"fate": ChangeOutcome.REFUSED, **waits, **prices}
    return {"fate": ChangeOutcome.WAITING, **prices}


def change_fields(
    kind: str, old: Mapping[str, Any], new: Mapping[str, Any], note: str
) -> dict[str, Any]:
    """Return the fields of a change that an event of the history shows."""
    price = {"price_old": _money(old, "list_price"), "price_new": _money(new, "list_price")}
    stock = {"stock_old": _stock(old), "stock_new": _stock(new)}
    net = f"{_money(old, 'net_price')} to {_money(new, 'net_price')}"
    known: dict[str, dict[str, Any]] = {
        "price_changed": price,
        "quantity_changed": stock,
        "cost_changed": {"note": f"cost {net}"},
        "not_listed": {"kind": "not listed", **stock},
        "first_observed": {"kind": "new part", **price, **stock, "stock_old": None},
        "drift_found": {"kind": _edit(old, new)},
        "change_held": {"kind": "held", "note": note},
    }
    return known[kind]


def _edit(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return what somebody did in the shop itself."""
    is_hidden = "unpublished" in visibility_change(old, new)
    return "unpublished in the shop" if is_hidden else "edited in the shop"


def _money(values: Mapping[str, Any], name: str) -> Decimal | None:
    return _decimal(values.get(name))


def _decimal(text: Any) -> Decimal | None:  # noqa: ANN401 - JSON's word for a number
    return None if text is None else Decimal(str(text))


def _stock(values: Mapping[str, Any]) -> int:
    return sum((values.get("quantities") or {}).values())
