"""Products in a simulated shop: prices of one product's variants, and the product's own fields."""

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from headway_lab.simulators.shopify.request import Facet, Info, Payload, UserError, check_length
from headway_lab.simulators.shopify.schema import as_money
from headway_lab.simulators.shopify.shop import ShopProduct, ShopVariant, SimulatedShop

# Code, field and message of an error.
Fault = tuple[str | None, str, str]
TEXT_CHARS_MAX = 255
# No recording shows the exact bound; there is one.
MONEY_BELOW = 10**18
NO_HANDLE = re.compile(r"[^a-z0-9_]+")
ITEM_FIELDS = {
    "tracked": "tracked",
    "countryCodeOfOrigin": "origin",
    "harmonizedSystemCode": "tariff_code",
}
PRODUCT_FIELDS = {
    "title": "title",
    "vendor": "vendor",
    "descriptionHtml": "description",
    "status": "status",
}
FACETS = ("price", "compare_at", "cost", "sku", "tracked", "policy")
TARIFF_CODE = re.compile(r"[0-9]{6,13}")


def update_variants(_: object, info: Info, **arguments: Any) -> Payload:  # noqa: ANN401
    """Set prices, costs, SKUs of variants of one product."""
    shop_request = info.context
    check_length(arguments["variants"])
    product = shop_request.shop.products.get(arguments["productId"])
    if product is None:
        text = "Product does not exist"
        return _refused(
            None, shop_request.user_error("PRODUCT_DOES_NOT_EXIST", ("productId",), text)
        )
    if product.is_suspended:
        text = "Product is suspended"
        return _refused(product, shop_request.user_error("PRODUCT_SUSPENDED", ("productId",), text))
    changes: list[tuple[ShopVariant, ShopVariant]] = []
    errors: list[UserError] = []
    for index, argument in enumerate(arguments["variants"]):
        variant = shop_request.shop.variants.get(argument.get("id") or "")
        faults = _variant_faults(product, variant, argument)
        errors += [
            shop_request.user_error(code, ("variants", index, *name.split(".")), message)
            for code, name, message in faults
        ]
        if variant is not None and not faults:
            changes.append((variant, edited(variant, argument)))
    if errors and not arguments["allowPartialUpdates"]:
        return {**_refused(product, *errors), "productVariants": None}
    for number, (old, changed) in enumerate(changes):
        new = shop_request.shop.put_variant(changed)
        changes[number] = (old, new)
        shop_request.record(
            variant_facets(old, new) or [("price", new.id, None, old.price, new.price)]
        )
    variants = [new for _, new in changes]
    return {"product": product, "productVariants": variants, "userErrors": errors}


def update_product(_: object, info: Info, **arguments: Any) -> Payload:  # noqa: ANN401
    """Set a product's own fields, above all its status."""
    shop_request = info.context
    fields = arguments.get("product") or {}
    product = shop_request.shop.products.get(fields.get("id") or "")
    if product is None:
        return _refused(None, shop_request.user_error(None, ("id",), "Product does not exist"))
    if handle_fault(shop_request.shop, fields.get("handle"), product):
        return _refused(product, shop_request.user_error(None, ("handle",), "Handle is not good"))
    if fault := text_fault(fields, is_new=False):
        return _refused(product, shop_request.user_error(None, *fault))
    updated = updated_product(product, fields)
    shop_request.shop.put_product(updated)
    shop_request.record(product_facets(product, updated, fields))
    return {"product": updated, "userErrors": []}


def edited(variant: ShopVariant, fields: Mapping[str, Any]) -> ShopVariant:
    """Return the variant with the fields of the input; missing fields stay as they are."""
    item = fields.get("inventoryItem") or {}
    values: dict[str, Any] = {}
    if fields.get("price") is not None:
        values["price"] = as_money(fields["price"])
    if "compareAtPrice" in fields:
        values["compare_at"] = _money(fields["compareAtPrice"])
    if "cost" in item:
        values["cost"] = _money(item["cost"])
    if fields.get("inventoryPolicy") is not None:
        values["policy"] = fields["inventoryPolicy"]
    for name, attribute in ITEM_FIELDS.items():
        if item.get(name) is not None:
            values[attribute] = item[name]
    if weight := (item.get("measurement") or {}).get("weight"):
        values["weight"] = (weight["value"], weight["unit"])
    for source in (item, fields):
        if source.get("sku") is not None:
            values["sku"] = source["sku"]
    return replace(variant, **values)


def variant_facets(old: ShopVariant, new: ShopVariant) -> list[Facet]:
    """Return what differs between two states of a variant."""
    return [
        (name, new.id, None, getattr(old, name), getattr(new, name))
        for name in FACETS
        if getattr(old, name) != getattr(new, name)
    ]


def money_faults(fields: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with the amounts of a variant; of a bad cost there are two errors."""
    item = fields.get("inventoryItem") or {}
    faults: list[Fault] = []
    for name, value in (
        ("price", fields.get("price")),
        ("compareAtPrice", fields.get("compareAtPrice")),
        ("inventoryItem.cost", item.get("cost")),
    ):
        amount = Decimal(0) if value is None else as_money(value)
        if 0 <= amount < MONEY_BELOW:
            continue
        if name == "inventoryItem.cost":
            faults.append((None, "inventoryItem", "Inventory item is invalid"))
        if amount < 0:
            text = "must be greater than or equal to 0"
            faults.append(("GREATER_THAN_OR_EQUAL_TO", name, text))
        else:
            faults.append(("INVALID_INPUT", name, f"must be less than {MONEY_BELOW}"))
    return faults


def item_faults(fields: Mapping[str, Any]) -> list[Fault]:
    """Return what is wrong with the weight and the tariff code of a variant."""
    item = fields.get("inventoryItem") or {}
    weight, code = (item.get("measurement") or {}).get("weight"), item.get("harmonizedSystemCode")
    faults: list[Fault] = []
    if weight and weight["value"] < 0:
        text = "must be greater than or equal to 0"
        faults.append((None, "inventoryItem.measurement.weight", text))
    if code is not None and not TARIFF_CODE.fullmatch(code):
        text = "must be a number between 6 and 13 digits"
        faults.append((None, "inventoryItem.harmonizedSystemCode", text))
    return faults


def media_fault(fields: Mapping[str, Any]) -> tuple[tuple[str, ...], str] | None:
    """Return field and message of a file or a tag that the shop refuses."""
    for file in fields.get("files") or ():
        if not (file.get("originalSource") or "").startswith("https://"):
            return ("files",), "Image URL is invalid"
    if any(len(tag) > TEXT_CHARS_MAX for tag in fields.get("tags") or ()):
        return ("tags",), f"is too long (maximum is {TEXT_CHARS_MAX} characters)"
    return None


def text_fault(fields: Mapping[str, Any], *, is_new: bool) -> tuple[tuple[str, ...], str] | None:
    """Return field and message of a text that is blank or too long; the message names no field."""
    if not (fields.get("title") or "").strip() and (is_new or "title" in fields):
        return ("title",), "can't be blank"
    for name in ("title", "vendor"):
        if len(fields.get(name) or "") > TEXT_CHARS_MAX:
            return (name,), f"is too long (maximum is {TEXT_CHARS_MAX} characters)"
    return None


def normalized(handle: str) -> str:
    """Return a handle as the shop keeps it: in small letters, hyphens for all that is neither."""
    return NO_HANDLE.sub("-", handle.lower()).strip("-")


def updated_product(product: ShopProduct, fields: Mapping[str, Any]) -> ShopProduct:
    """Return the product with the fields of the input; missing fields stay as they are."""
    values = {
        attribute: fields[name]
        for name, attribute in PRODUCT_FIELDS.items()
        if fields.get(name) is not None
    }
    if fields.get("tags") is not None:  # a comma separates two tags, as in the admin
        values["tags"] = tuple(part.strip() for tag in fields["tags"] for part in tag.split(","))
    if fields.get("files") is not None:
        values["images"] = tuple(file["originalSource"] for file in fields["files"])
    if fields.get("handle"):
        values["handle"] = normalized(fields["handle"])
    return replace(product, **values)


def product_facets(old: ShopProduct, new: ShopProduct, fields: Mapping[str, Any]) -> list[Facet]:
    """Return the requested fields of a product, changed or not."""
    names = [
        attribute
        for name, attribute in {**PRODUCT_FIELDS, "handle": "handle"}.items()
        if name in fields
    ]
    return [
        (name, new.id, None, getattr(old, name), getattr(new, name)) for name in names or ["status"]
    ]


def handle_fault(
    shop: SimulatedShop, handle: str | None, product: ShopProduct | None
) -> str | None:
    """Return the error code of an invalid handle, if it is one."""
    if not handle:
        return None
    if not normalized(handle):
        return "INVALID_INPUT"
    owner = shop.by_handle(normalized(handle))
    is_taken = owner is not None and (product is None or owner.id != product.id)
    return "HANDLE_NOT_UNIQUE" if is_taken else None


def _variant_faults(
    product: ShopProduct, variant: ShopVariant | None, fields: Mapping[str, Any]
) -> list[Fault]:
    if not fields.get("id"):
        return [("PRODUCT_VARIANT_ID_MISSING", "id", "Product variant is missing ID attribute")]
    if variant is None or variant.product != product.id:
        return [("PRODUCT_VARIANT_DOES_NOT_EXIST", "id", "Product variant does not exist")]
    if "inventoryQuantities" in fields:
        text = "Inventory quantities can only be provided during create"
        return [("NO_INVENTORY_QUANTITIES_ON_VARIANTS_UPDATE", "inventoryQuantities", text)]
    return money_faults(fields) + item_faults(fields)


def _money(value: object) -> Decimal | None:
    return None if value is None else as_money(value)


def _refused(product: ShopProduct | None, *errors: UserError) -> Payload:
    return {"product": product, "userErrors": list(errors)}
