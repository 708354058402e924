"""`productSet` in a simulated shop: create a product or set all its fields, lists included.

What a list leaves out is deleted. Without a list of variants they stay as they are; a new product
gets a default one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway_lab.simulators.shopify.products import (
    edited,
    handle_fault,
    item_faults,
    media_fault,
    money_faults,
    normalized,
    product_facets,
    text_fault,
    updated_product,
    variant_facets,
)
from headway_lab.simulators.shopify.request import (
    Facet,
    Info,
    Payload,
    ShopRequest,
    check_length,
    refuse,
)
from headway_lab.simulators.shopify.shop import DEFAULT_OPTIONS, Level, ShopProduct, ShopVariant

Fault = tuple[str, tuple[str | int, ...], str]


def set_product(_: object, info: Info, **arguments: Any) -> Payload:  # noqa: ANN401
    """Create or change the product of that handle or id according to the input."""
    shop_request = info.context
    fields, identifier = arguments["input"], arguments.get("identifier") or {}
    if not arguments["synchronous"]:
        raise refuse("BAD_REQUEST", "The simulated shop sets products synchronously only.")
    check_length(fields.get("variants") or ())
    product = _find(shop_request, fields, identifier)
    fault = _product_fault(shop_request, fields, identifier, product) or _variants_fault(
        shop_request, fields, product
    )
    if fault is not None:
        return {"product": None, "userErrors": [shop_request.user_error(*fault)]}
    if product is None:
        base = _made(shop_request, fields)
        sku = next((row.get("sku") for row in fields.get("variants") or ()), None)
        facets: list[Facet] = [("create", base.id, None, None, sku or base.handle)]
    else:
        base = updated_product(product, fields)
        facets = product_facets(product, base, fields)
    shop_request.shop.put_product(base)
    if product is None or "variants" in fields:
        facets += _set_variants(shop_request, base, fields.get("variants") or ())
    shop_request.record(facets)
    return {"product": shop_request.shop.products[base.id], "userErrors": []}


def _find(
    shop_request: ShopRequest, fields: Mapping[str, Any], identifier: Mapping[str, Any]
) -> ShopProduct | None:
    if identifier.get("handle"):
        return shop_request.shop.by_handle(normalized(identifier["handle"]))
    return shop_request.shop.products.get(identifier.get("id") or fields.get("id") or "")


def _product_fault(  # noqa: PLR0911 - one for each rule
    shop_request: ShopRequest,
    fields: Mapping[str, Any],
    identifier: Mapping[str, Any],
    product: ShopProduct | None,
) -> Fault | None:
    handle = identifier.get("handle")
    if identifier and fields.get("id"):
        return "ID_NOT_ALLOWED", ("input", "id"), "The id is not allowed with an identifier"
    if handle and not fields.get("handle"):
        text = "The input field corresponding to the identifier is required"
        return "MISSING_FIELD_REQUIRED", ("input", "handle"), text
    if handle and normalized(fields["handle"]) != normalized(handle):
        text = "The identifier does not match the field in the input"
        return "INPUT_MISMATCH", ("input", "handle"), text
    if product is None and (identifier.get("id") or fields.get("id")):
        return "PRODUCT_DOES_NOT_EXIST", ("input",), "Product does not exist"
    if product is not None and product.is_suspended:
        return "PRODUCT_SUSPENDED", ("input",), "Product is suspended"
    if code := handle_fault(shop_request.shop, fields.get("handle"), product):
        return code, ("input", "handle"), "Handle is taken, or not made of letters and hyphens"
    if fault := text_fault(fields, is_new=product is None) or media_fault(fields):
        path, text = fault
        return "INVALID_INPUT", ("input", *path), text
    if bool(fields.get("variants")) != bool(fields.get("productOptions")):
        has = bool(fields.get("variants"))
        code = "PRODUCT_OPTIONS_INPUT_MISSING" if has else "VARIANTS_INPUT_MISSING"
        return code, ("input",), "Variants and options must be given together"
    return None


def _variants_fault(
    shop_request: ShopRequest, fields: Mapping[str, Any], product: ShopProduct | None
) -> Fault | None:
    known = {option["name"] for option in fields.get("productOptions") or () if option.get("name")}
    combinations: set[tuple[tuple[str, str], ...]] = set()
    for index, row in enumerate(fields.get("variants") or ()):
        path = ("input", "variants", index)
        options = _options(row)
        if options in combinations or {name for name, _ in options} != known:
            return "INVALID_VARIANT", path, "The option values are not those of one new variant"
        combinations.add(options)
        variant = _same(shop_request, product, row)
        if row.get("id") and variant is None:
            text = "Product variant does not exist"
            return "PRODUCT_VARIANT_DOES_NOT_EXIST", (*path, "id"), text
        if faults := money_faults(row) + item_faults(row):
            _, name, text = faults[-1]
            return "INVALID_VARIANT", (*path, *name.split(".")), text
        for number, stock in enumerate(row.get("inventoryQuantities") or ()):
            level = shop_request.shop.level(variant.item, stock["locationId"]) if variant else None
            is_closed = variant is not None and (level is None or not level.is_active)
            is_sound = stock["name"] in {"available", "on_hand"} and stock["quantity"] >= 0
            if stock["locationId"] not in shop_request.shop.locations or is_closed or not is_sound:
                where = (*path, "inventoryQuantities", number)
                return "INVALID_INPUT", where, "The quantity cannot be set at that location"
    return None


def _made(shop_request: ShopRequest, fields: Mapping[str, Any]) -> ShopProduct:
    handle = normalized(fields.get("handle") or shop_request.shop.free_handle(fields["title"]))
    blank = ShopProduct(
        id=shop_request.shop.new_id("Product"), handle=handle, title=fields["title"]
    )
    return updated_product(blank, fields)


def _set_variants(
    shop_request: ShopRequest, product: ShopProduct, rows: Sequence[Mapping[str, Any]]
) -> list[Facet]:
    shop = shop_request.shop
    facets: list[Facet] = []
    kept: list[str] = []
    for row in rows or ({},):
        old = _same(shop_request, product, row) if row else None
        base = old or ShopVariant(
            id=shop.new_id("ProductVariant"),
            item=shop.new_id("InventoryItem"),
            product=product.id,
            options=_options(row),
        )
        new = edited(base, row)
        shop.put_variant(new)
        kept.append(new.id)
        facets += variant_facets(base, new)
        if old is None:
            shop.hide_from_search(new.id)
            facets.append(("variant", new.id, None, None, new.sku))
        facets += _set_stock(shop_request, new, row, is_new=old is None)
    for gone in (variant for variant in product.variants if variant not in kept):
        facets.append(("delete", gone, None, shop.variants[gone].sku, None))
        shop.drop_variant(gone)
    shop.put_product(replace(product, variants=tuple(kept)))
    return facets


def _set_stock(
    shop_request: ShopRequest, variant: ShopVariant, fields: Mapping[str, Any], *, is_new: bool
) -> list[Facet]:
    quantities = {
        entry["locationId"]: entry["quantity"] for entry in fields.get("inventoryQuantities") or ()
    }
    if (
        is_new and not quantities
    ):  # a new variant is stocked at the first location, until it is counted
        quantities = {next(iter(shop_request.shop.locations)): 0}
    facets: list[Facet] = []
    for location, quantity in quantities.items():
        level = shop_request.shop.level(variant.item, location)
        old = level.quantity if level is not None else None
        shop_request.shop.put_level(Level(item=variant.item, location=location, quantity=quantity))
        facets.append(("stock", variant.item, location, old, quantity))
    return facets


def _same(
    shop_request: ShopRequest, product: ShopProduct | None, fields: Mapping[str, Any]
) -> ShopVariant | None:
    """Return the variant of the product that the input means: by its id, or by its options."""
    for variant_id in product.variants if product is not None else ():
        variant = shop_request.shop.variants[variant_id]
        if fields.get("id") == variant_id or (
            not fields.get("id") and variant.options == _options(fields)
        ):
            return variant
    return None


def _options(fields: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    pairs = [
        (option.get("optionName") or "", option.get("name") or "")
        for option in fields.get("optionValues") or ()
    ]
    return tuple(sorted(pairs)) or DEFAULT_OPTIONS
