"""Stock in a simulated shop: set quantities, all or none, and stock an item somewhere new."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from headway_lab.simulators.shopify.request import (
    Facet,
    Info,
    Payload,
    ShopRequest,
    UserError,
    check_length,
    once,
    refuse,
)
from headway_lab.simulators.shopify.shop import Level

NAMES = ("available", "on_hand")
REASONS = frozenset(
    {
        "correction",
        "cycle_count_available",
        "damaged",
        "movement_created",
        "movement_received",
        "movement_updated",
        "movement_canceled",
        "other",
        "promotion",
        "quality_control",
        "received",
        "reservation_created",
        "reservation_deleted",
        "reservation_updated",
        "restock",
        "safety_stock",
        "shrinkage",
    }
)
QUANTITY_MAX = 1_000_000_000


def set_quantities(_: object, info: Info, **arguments: Any) -> Payload:  # noqa: ANN401
    """Set quantities under an idempotency key."""
    fields = arguments["input"]
    check_length(fields["quantities"])
    if any("changeFromQuantity" not in entry for entry in fields["quantities"]):
        raise refuse(
            "INVALID_FIELD_ARGUMENTS",
            "InventoryQuantityInput must include the following argument: changeFromQuantity.",
        )
    return once(
        info,
        arguments,
        act=lambda: _set(info.context, fields),
        decline=lambda error: {"inventoryAdjustmentGroup": None, "userErrors": [error]},
    )


def activate(_: object, info: Info, **arguments: Any) -> Payload:  # noqa: ANN401
    """Stock an item at a location under an idempotency key."""
    return once(
        info,
        arguments,
        act=lambda: _activate(info.context, arguments),
        decline=lambda error: {"inventoryLevel": None, "userErrors": [error]},
    )


def _set(shop_request: ShopRequest, fields: Mapping[str, Any]) -> Payload:
    errors = _form_errors(shop_request, fields)
    pairs = Counter(map(_pair, fields["quantities"]))
    for index, entry in enumerate(fields["quantities"]):
        # Each of the rows of a pair is named, the first too.
        if pairs[_pair(entry)] > 1:
            errors.append(
                shop_request.user_error(
                    "NO_DUPLICATE_INVENTORY_ITEM_ID_GROUP_ID_PAIR",
                    ("input", "quantities", index, "locationId"),
                    "The combination of inventoryItemId and locationId must be unique.",
                )
            )
        elif fault := _fault(shop_request, entry, name=fields["name"]):
            code, name, message = fault
            path = ("input", "quantities", index, name)
            errors.append(shop_request.user_error(code, path, message))
    if errors:
        return {"inventoryAdjustmentGroup": None, "userErrors": errors}
    return {"inventoryAdjustmentGroup": _apply(shop_request, fields), "userErrors": []}


def _pair(entry: Mapping[str, Any]) -> tuple[str, str]:
    return entry["inventoryItemId"], entry["locationId"]


def _form_errors(shop_request: ShopRequest, fields: Mapping[str, Any]) -> list[UserError]:
    document = fields.get("referenceDocumentUri")
    checks = (
        (fields["name"] in NAMES, "INVALID_NAME", "name"),
        (fields["reason"] in REASONS, "INVALID_REASON", "reason"),
        (
            document is None or bool(urlsplit(document).scheme),
            "INVALID_REFERENCE_DOCUMENT",
            "referenceDocumentUri",
        ),
    )
    return [
        shop_request.user_error(code, ("input", name), f"The specified {name} is invalid.")
        for is_good, code, name in checks
        if not is_good
    ]


def _fault(  # noqa: PLR0911 - one for each rule
    shop_request: ShopRequest, entry: Mapping[str, Any], *, name: str
) -> tuple[str, str, str] | None:
    """Return code, field and message of what is wrong with one quantity, if anything is.

    What is available may be less than nothing, once more was sold than there was.
    """
    shop, quantity = shop_request.shop, entry["quantity"]
    location = shop.locations.get(entry["locationId"])
    variant = shop.variants.get(shop.items.get(entry["inventoryItemId"], ""))
    if variant is None:
        return "INVALID_INVENTORY_ITEM", "inventoryItemId", "The inventory item does not exist."
    if location is None or not location.is_active:
        return "INVALID_LOCATION", "locationId", "The location does not exist."
    if not variant.tracked:
        return "NON_MUTABLE_INVENTORY_ITEM", "inventoryItemId", "The item may not be adjusted."
    if quantity < -QUANTITY_MAX:
        return "INVALID_QUANTITY_TOO_LOW", "quantity", "The quantity is too low."
    if quantity < 0 and name != "available":
        return "INVALID_QUANTITY_NEGATIVE", "quantity", "The quantity can't be negative."
    if quantity > QUANTITY_MAX:
        return "INVALID_QUANTITY_TOO_HIGH", "quantity", "The quantity is too high."
    level = shop.level(variant.item, location.id)
    if level is None or not level.is_active:
        text = "The inventory item is not stocked at the location."
        return "ITEM_NOT_STOCKED_AT_LOCATION", "locationId", text
    if entry["changeFromQuantity"] not in {None, level.quantity}:
        text = "The changeFromQuantity value does not match persisted value."
        return "CHANGE_FROM_QUANTITY_STALE", "changeFromQuantity", text
    return None


def _apply(shop_request: ShopRequest, fields: Mapping[str, Any]) -> Payload | None:
    facets: dict[str, list[Facet]] = {}
    changes: list[Payload] = []
    for entry in fields["quantities"]:
        item, location, quantity = entry["inventoryItemId"], entry["locationId"], entry["quantity"]
        level = shop_request.shop.level(item, location)
        assert level is not None
        shop_request.shop.put_level(replace(level, quantity=quantity))
        facet: Facet = ("stock", item, location, level.quantity, quantity)
        facets.setdefault(item, []).append(facet)
        if quantity != level.quantity:
            change = {"delta": quantity - level.quantity, "quantityAfterChange": quantity}
            place = {"item": item, "location": location}
            changes += [{**change, **place, "name": name} for name in NAMES]
    for of_item in facets.values():
        shop_request.record(of_item)
    if not changes:
        return None
    return {
        "id": shop_request.shop.new_id("InventoryAdjustmentGroup"),
        "createdAt": shop_request.now.isoformat(),
        "reason": fields["reason"],
        "referenceDocumentUri": fields.get("referenceDocumentUri"),
        "changes": changes,
    }


def _activate(shop_request: ShopRequest, fields: Mapping[str, Any]) -> Payload:
    shop = shop_request.shop
    item, location = fields["inventoryItemId"], fields["locationId"]
    place = shop.locations.get(location)
    level = shop.level(item, location)
    quantity = fields.get("available", fields.get("onHand"))
    fault = None
    if item not in shop.items:
        name = location if place is None else place.name
        text = f"The product couldn't be stocked at {name} because the product was deleted."
        fault = ("inventoryItemId", text)
    elif place is None or not place.is_active:
        fault = ("locationId", "The location does not exist.")
    elif level is not None and level.is_active and quantity is not None:
        text = "Not allowed to set available quantity when the item is already active there."
        fault = ("available", text)
    elif quantity is not None and not -QUANTITY_MAX <= quantity <= QUANTITY_MAX:
        fault = ("available", "The quantity is out of range.")
    elif None not in {fields.get("available"), fields.get("onHand")}:
        fault = ("onHand", "Not allowed to set both available and on_hand quantities.")
    if fault is not None:
        name, message = fault
        error = shop_request.user_error(None, (name,), message)
        return {"inventoryLevel": None, "userErrors": [error]}
    # A level that was deactivated is remembered, and returns with its old quantity. An item that is
    # not tracked has none, whatever was asked for.
    old = level.quantity if level is not None else 0
    if not shop.variants[shop.items[item]].tracked:
        quantity = 0
    new = Level(item=item, location=location, quantity=old if quantity is None else quantity)
    before = level.quantity if level is not None and level.is_active else None
    shop.put_level(new)
    shop_request.record([("stock", item, location, before, new.quantity)])
    return {"inventoryLevel": new, "userErrors": []}
