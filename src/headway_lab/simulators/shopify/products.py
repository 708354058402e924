"""Products in a simulated shop: prices of one product's variants, and what a product says."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from headway_lab.simulators.shopify.request import Facet, Info, Payload, UserError, check_length
from headway_lab.simulators.shopify.schema import as_money
from headway_lab.simulators.shopify.shop import ShopProduct, ShopVariant, SimulatedShop

TOLD = {"title": "title", "vendor": "vendor", "descriptionHtml": "description", "status": "status"}
FACETS = ("price", "compare_at", "cost", "sku", "tracked")


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
    wanted: list[tuple[ShopVariant, ShopVariant]] = []
    errors: list[UserError] = []
    for index, each in enumerate(arguments["variants"]):
        variant = shop_request.shop.variants.get(each.get("id") or "")
        if fault := _variant_fault(product, variant, each):
            code, name, message = fault
            errors.append(
                shop_request.user_error(code, ("variants", index, *name.split(".")), message)
            )
        elif variant is not None:
            wanted.append((variant, edited(variant, each)))
    if errors and not arguments["allowPartialUpdates"]:
        return {**_refused(product, *errors), "productVariants": None}
    for old, new in wanted:
        shop_request.shop.put_variant(new)
        shop_request.record(
            variant_facets(old, new) or [("price", new.id, None, old.price, new.price)]
        )
    variants = [new for _, new in wanted]
    return {"product": product, "productVariants": variants, "userErrors": errors}


def update_product(_: object, info: Info, **arguments: Any) -> Payload:  # noqa: ANN401
    """Set what a product says of itself, its status above all."""
    shop_request = info.context
    wanted = arguments.get("product") or {}
    product = shop_request.shop.products.get(wanted.get("id") or "")
    if product is None:
        return _refused(None, shop_request.user_error(None, ("id",), "Product does not exist"))
    if handle_fault(shop_request.shop, wanted.get("handle"), product):
        return _refused(product, shop_request.user_error(None, ("handle",), "Handle is not good"))
    told = retold(product, wanted)
    shop_request.shop.put_product(told)
    shop_request.record(product_facets(product, told, wanted))
    return {"product": told, "userErrors": []}


def edited(variant: ShopVariant, wanted: Mapping[str, Any]) -> ShopVariant:
    """Return the variant as the input wants it; what is not given stays."""
    item = wanted.get("inventoryItem") or {}
    fields: dict[str, Any] = {}
    if wanted.get("price") is not None:
        fields["price"] = as_money(wanted["price"])
    if "compareAtPrice" in wanted:
        fields["compare_at"] = _money(wanted["compareAtPrice"])
    if "cost" in item:
        fields["cost"] = _money(item["cost"])
    if item.get("tracked") is not None:
        fields["tracked"] = item["tracked"]
    for source in (item, wanted):
        if source.get("sku") is not None:
            fields["sku"] = source["sku"]
    return replace(variant, **fields)


def variant_facets(old: ShopVariant, new: ShopVariant) -> list[Facet]:
    """Return what differs between two states of a variant."""
    return [
        (name, new.id, None, getattr(old, name), getattr(new, name))
        for name in FACETS
        if getattr(old, name) != getattr(new, name)
    ]


def money_fault(wanted: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return code, field and message of an amount below zero, if there is one."""
    item = wanted.get("inventoryItem") or {}
    for code, name, value in (
        ("NEGATIVE_PRICE_VALUE", "price", wanted.get("price")),
        ("NEGATIVE_PRICE_VALUE", "compareAtPrice", wanted.get("compareAtPrice")),
        ("GREATER_THAN_OR_EQUAL_TO", "inventoryItem.cost", item.get("cost")),
    ):
        if value is not None and as_money(value) < 0:
            return code, name, "Must be greater than or equal to 0"
    return None


def retold(product: ShopProduct, wanted: Mapping[str, Any]) -> ShopProduct:
    """Return the product as the input wants it; what is not given stays."""
    fields = {ours: wanted[name] for name, ours in TOLD.items() if wanted.get(name) is not None}
    if wanted.get("handle"):
        fields["handle"] = wanted["handle"].lower()
    return replace(product, **fields)


def product_facets(old: ShopProduct, new: ShopProduct, wanted: Mapping[str, Any]) -> list[Facet]:
    """Return what was asked for of a product, changed or not."""
    names = [ours for name, ours in {**TOLD, "handle": "handle"}.items() if name in wanted]
    return [
        (name, new.id, None, getattr(old, name), getattr(new, name)) for name in names or ["status"]
    ]


def handle_fault(
    shop: SimulatedShop, handle: str | None, product: ShopProduct | None
) -> str | None:
    """Return the code of what is wrong with a wanted handle, if anything is."""
    if not handle:
        return None
    if not handle.replace("-", "").replace("_", "").isalnum():
        return "INVALID_INPUT"
    owner = shop.by_handle(handle)
    is_taken = owner is not None and (product is None or owner.id != product.id)
    return "HANDLE_NOT_UNIQUE" if is_taken else None


def _variant_fault(
    product: ShopProduct, variant: ShopVariant | None, wanted: Mapping[str, Any]
) -> tuple[str, str, str] | None:
    if not wanted.get("id"):
        return "PRODUCT_VARIANT_ID_MISSING", "id", "Product variant is missing ID attribute"
    if variant is None or variant.product != product.id:
        return "PRODUCT_VARIANT_DOES_NOT_EXIST", "id", "Product variant does not exist"
    if "inventoryQuantities" in wanted:
        text = "Inventory quantities can only be provided during create"
        return "NO_INVENTORY_QUANTITIES_ON_VARIANTS_UPDATE", "inventoryQuantities", text
    return money_fault(wanted)


def _money(value: object) -> Decimal | None:
    return None if value is None else as_money(value)


def _refused(product: ShopProduct | None, *errors: UserError) -> Payload:
    return {"product": product, "userErrors": list(errors)}
