"""What a simulated shop answers to questions, and the table of all that it can resolve."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql import ExecutionResult, GraphQLError, GraphQLInterfaceType, execute

from headway.simulators import shopify_bulk, shopify_products, shopify_stock, shopify_upsert
from headway.simulators.shopify_schema import (
    LIST_MAX,
    SCHEMA,
    Operation,
    attach,
    money_text,
    short_text,
)
from headway.simulators.shopify_search import search
from headway.simulators.shopify_shop import Level, Product, Shop, Variant, number
from headway.simulators.shopify_visit import Info, Payload, Visit, check_length, refuse

NO_STOCK = frozenset(
    {"committed", "damaged", "incoming", "quality_control", "reserved", "safety_stock"}
)
BULK_FILTERS = {"status": "status", "operation_type": "type"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A variant seen as what lies on the shelf."""

    variant: Variant

    @property
    def id(self) -> str:
        """The id of the inventory item."""
        return self.variant.item


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some of many, and whether there are more."""

    nodes: Sequence[Any]
    has_next: bool
    has_previous: bool


TYPES = {Variant: "ProductVariant", Item: "InventoryItem", Level: "InventoryLevel", Shop: "Shop"}


def answer(operation: Operation, variables: Mapping[str, Any], visit: Visit) -> Payload:
    """Execute an operation and return its data and errors as the API says them."""
    result = execute(
        SCHEMA,
        operation.document,
        variable_values=dict(variables),
        context_value=visit,
        operation_name=operation.name,
    )
    assert isinstance(result, ExecutionResult)
    for error in result.errors or ():
        if error.original_error and not isinstance(error.original_error, GraphQLError):
            raise error.original_error  # a bug of the simulator is not the shop's answer
    said: Payload = {} if result.data is None else {"data": result.data}
    if result.errors:
        said["errors"] = [error.formatted for error in result.errors]
    return said


def page(values: Sequence[Any], arguments: Mapping[str, Any]) -> Page:
    """Return the first ones after a cursor; raises GraphQLError."""
    first, after = arguments.get("first"), arguments.get("after")
    if first is None:
        raise refuse("BAD_REQUEST", "you must provide one of first or last")
    if not 0 < first <= LIST_MAX:
        raise refuse("BAD_REQUEST", f"first must be between 1 and {LIST_MAX}")
    start = 0
    if after is not None:
        cursors = [_cursor(each) for each in values]
        if after not in cursors:
            raise refuse("BAD_REQUEST", "after is not a valid cursor")
        start = cursors.index(after) + 1
    end = start + first
    return Page(nodes=values[start:end], has_next=end < len(values), has_previous=start > 0)


def find_node(visit: Visit, gid: str) -> object | None:
    """Return what has this id, if anything has; raises GraphQLError."""
    kind = gid.removeprefix("gid://shopify/").partition("/")[0]
    if not gid.startswith("gid://shopify/") or not number(gid):
        raise refuse("BAD_REQUEST", f"Invalid global id {gid!r}")
    shop = visit.shop
    found: object | None = None
    if kind == "Product":
        found = shop.products.get(gid)
    elif kind == "ProductVariant":
        found = shop.variants.get(gid)
    elif kind == "InventoryItem":
        found = _item(shop, gid)
    elif kind == "Location":
        found = shop.locations.get(gid)
    elif kind == "BulkOperation":
        operation = visit.bulk.operations.get(gid)
        found = operation and operation.view(visit.at_s)
    return found


def _nodes(_: object, info: Info, ids: Sequence[str]) -> list[object | None]:
    check_length(ids)
    return [find_node(info.context, each) for each in ids]


def _one_of(kind: str) -> Callable[..., Any]:
    def find(_: object, info: Info, **arguments: Any) -> object | None:  # noqa: ANN401
        gid = arguments["id"]
        is_kind = gid.startswith(f"gid://shopify/{kind}/")
        return find_node(info.context, gid) if is_kind else None

    return find


def _locations(_: object, info: Info, **arguments: Any) -> Page:  # noqa: ANN401
    locations = info.context.shop.locations.values()
    has_all = arguments["includeInactive"]
    return page([each for each in locations if each.is_active or has_all], arguments)


def _variants(_: object, info: Info, **arguments: Any) -> Page:  # noqa: ANN401
    return page(search(info.context.shop, arguments.get("query")), arguments)


def _by_identifier(_: object, info: Info, identifier: Mapping[str, Any]) -> Product | None:
    shop = info.context.shop
    if identifier.get("handle"):
        return shop.by_handle(identifier["handle"])
    return shop.products.get(identifier.get("id") or "")


def _bulk_operations(_: object, info: Info, **arguments: Any) -> Page:  # noqa: ANN401
    visit = info.context
    views = [each.view(visit.at_s) for each in visit.bulk.operations.values()]
    for term in (arguments.get("query") or "").split():
        field, _, value = term.partition(":")
        if field not in BULK_FILTERS:
            raise refuse("BAD_REQUEST", f"The simulated shop cannot search by {field!r}")
        views = [each for each in views if each[BULK_FILTERS[field]] == value.upper()]
    return page(views[::-1], arguments)


def _levels(item: Item, info: Info, **arguments: Any) -> Page:  # noqa: ANN401
    levels = info.context.shop.levels(item.id)
    has_all = arguments["includeInactive"]
    return page([each for each in levels if each.is_active or has_all], arguments)


def _level(item: Item, info: Info, **arguments: Any) -> Level | None:  # noqa: ANN401
    level = info.context.shop.level(item.id, arguments["locationId"])
    is_seen = level is not None and (level.is_active or arguments["includeInactive"])
    return level if is_seen else None


def _quantities(level: Level, _: Info, names: Sequence[str]) -> list[Payload]:
    unknown = set(names) - NO_STOCK - set(shopify_stock.NAMES)
    if unknown:
        raise refuse("BAD_REQUEST", f"{min(unknown)!r} is not the name of a quantity")
    return [{"name": name, "quantity": 0 if name in NO_STOCK else level.quantity} for name in names]


def _unit_cost(item: Item, info: Info) -> Payload | None:
    if item.variant.cost is None:
        return None
    currency = info.context.shop.setup.currency
    return {"amount": short_text(item.variant.cost), "currencyCode": currency}


def _changes(group: Payload, _: Info, **arguments: Any) -> list[Payload]:  # noqa: ANN401
    asked = {"inventoryItemIds": "item", "locationIds": "location", "quantityNames": "name"}
    wanted = {ours: arguments[name] for name, ours in asked.items() if arguments.get(name)}
    return [
        each
        for each in group["changes"]
        if all(each[name] in values for name, values in wanted.items())
    ]


def _item(shop: Shop, item_id: str) -> Item | None:
    variant = shop.variants.get(shop.items.get(item_id, ""))
    return None if variant is None else Item(variant=variant)


def _total(variant: Variant, info: Info) -> int:
    return sum(each.quantity for each in info.context.shop.levels(variant.item) if each.is_active)


def _product_variants(product: Product, info: Info, **arguments: Any) -> Page:  # noqa: ANN401
    variants = [info.context.shop.variants[each] for each in product.variants]
    return page(variants, arguments)


def _cursor(value: Any) -> str:  # noqa: ANN401 - whatever stands on a page
    if isinstance(value, Level):
        return f"level-{number(value.location)}"
    return f"at-{number(value['id'] if isinstance(value, dict) else value.id)}"


def _type_of(value: object, *_: object) -> str:
    if isinstance(value, dict):
        return str(value["__typename"])
    return TYPES.get(type(value), type(value).__name__)


CONNECTION: dict[str, Callable[..., Any]] = {
    "nodes": lambda page, _: page.nodes,
    "edges": lambda page, _: [{"cursor": _cursor(each), "node": each} for each in page.nodes],
    "pageInfo": lambda page, _: {
        "hasNextPage": page.has_next,
        "hasPreviousPage": page.has_previous,
        "startCursor": _cursor(page.nodes[0]) if page.nodes else None,
        "endCursor": _cursor(page.nodes[-1]) if page.nodes else None,
    },
}
RESOLVERS: dict[str, dict[str, Callable[..., Any]]] = {
    "QueryRoot": {
        "bulkOperation": _one_of("BulkOperation"),
        "bulkOperations": _bulk_operations,
        "inventoryItem": _one_of("InventoryItem"),
        "locations": _locations,
        "node": lambda _, info, id: find_node(info.context, id),  # noqa: A006 - as the API has it
        "nodes": _nodes,
        "product": _one_of("Product"),
        "productByIdentifier": _by_identifier,
        "productVariant": _one_of("ProductVariant"),
        "productVariants": _variants,
        "shop": lambda _, info: info.context.shop,
    },
    "Mutation": {
        "bulkOperationRunMutation": shopify_bulk.run_mutation,
        "inventoryActivate": shopify_stock.activate,
        "inventorySetQuantities": shopify_stock.set_quantities,
        "productSet": shopify_upsert.set_product,
        "productUpdate": shopify_products.update_product,
        "productVariantsBulkUpdate": shopify_products.update_variants,
        "stagedUploadsCreate": shopify_bulk.stage_uploads,
    },
    "Shop": {
        "currencyCode": lambda shop, _: shop.setup.currency,
        "myshopifyDomain": lambda shop, _: shop.setup.domain,
        "name": lambda shop, _: shop.setup.domain.partition(".")[0],
    },
    "Location": {"isActive": lambda location, _: location.is_active},
    "Product": {
        "descriptionHtml": lambda product, _: product.description,
        "variants": _product_variants,
        "variantsCount": lambda product, _: {"count": len(product.variants)},
    },
    "ProductVariant": {
        "compareAtPrice": lambda variant, _: money_text(variant.compare_at),
        "inventoryItem": lambda variant, _: Item(variant=variant),
        "inventoryQuantity": _total,
        "price": lambda variant, _: money_text(variant.price),
        "product": lambda variant, info: info.context.shop.products[variant.product],
    },
    "InventoryItem": {
        "inventoryLevel": _level,
        "inventoryLevels": _levels,
        "sku": lambda item, _: item.variant.sku,
        "tracked": lambda item, _: item.variant.tracked,
        "unitCost": _unit_cost,
    },
    "InventoryLevel": {
        "id": lambda level, _: (
            f"gid://shopify/InventoryLevel/{number(level.location)}"
            f"?inventory_item_id={number(level.item)}"
        ),
        "isActive": lambda level, _: level.is_active,
        "item": lambda level, info: _item(info.context.shop, level.item),
        "location": lambda level, info: info.context.shop.locations[level.location],
        "quantities": _quantities,
    },
    "InventoryAdjustmentGroup": {"changes": _changes},
    "InventoryChange": {
        "item": lambda change, info: _item(info.context.shop, change["item"]),
        "location": lambda change, info: info.context.shop.locations.get(change["location"]),
    },
    **{name: CONNECTION for name in SCHEMA.type_map if name.endswith("Connection")},
}

attach(RESOLVERS)
node_type = SCHEMA.type_map["Node"]
assert isinstance(node_type, GraphQLInterfaceType)
node_type.resolve_type = _type_of
