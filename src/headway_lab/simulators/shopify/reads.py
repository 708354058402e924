"""The queries of a simulated shop, and the table of all resolvers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphql import GraphQLInterfaceType, GraphQLObjectType, get_named_type, is_leaf_type

from headway_lab.simulators.shopify import bulk, products, publications, stock, upsert
from headway_lab.simulators.shopify.customers import ShopCustomer
from headway_lab.simulators.shopify.lists import ListedPage, all_terms
from headway_lab.simulators.shopify.order_replies import FILTERS, clock_text
from headway_lab.simulators.shopify.orders import SoldOrder
from headway_lab.simulators.shopify.request import Info, Payload, ShopRequest, check_length, refuse
from headway_lab.simulators.shopify.schema import LIST_MAX, SCHEMA, attach, money_text, short_text
from headway_lab.simulators.shopify.search import search
from headway_lab.simulators.shopify.shop import (
    Level,
    ShopProduct,
    ShopVariant,
    SimulatedShop,
    number,
)

NO_STOCK = frozenset(
    {"committed", "damaged", "incoming", "quality_control", "reserved", "safety_stock"}
)
BULK_FILTERS = {"status": "status", "operation_type": "type"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A variant as an inventory item."""

    variant: ShopVariant

    @property
    def id(self) -> str:
        """The id of the inventory item."""
        return self.variant.item


TYPES: dict[type, str] = {
    ShopCustomer: "Customer",
    ShopProduct: "Product",
    SoldOrder: "Order",
    ShopVariant: "ProductVariant",
    Item: "InventoryItem",
    Level: "InventoryLevel",
    SimulatedShop: "Shop",
}


def page(values: Sequence[Any], arguments: Mapping[str, Any]) -> ListedPage:
    """Return the first ones after a cursor; raises GraphQLError."""
    first, after = arguments.get("first"), arguments.get("after")
    if first is None:
        raise refuse("BAD_REQUEST", "you must provide one of first or last")
    if not 0 < first <= LIST_MAX:
        raise refuse("BAD_REQUEST", f"first must be between 1 and {LIST_MAX}")
    start = 0
    if after is not None:
        cursors = [_cursor(value) for value in values]
        if after not in cursors:
            raise refuse("BAD_REQUEST", "after is not a valid cursor")
        start = cursors.index(after) + 1
    nodes = values[start : start + first]
    return ListedPage(
        nodes=nodes,
        cursors=[_cursor(node) for node in nodes],
        has_next=start + first < len(values),
        has_previous=start > 0,
    )


def find_node(shop_request: ShopRequest, gid: str) -> object | None:
    """Return what has this id, if anything has; raises GraphQLError."""
    kind = gid.removeprefix("gid://shopify/").partition("/")[0]
    if not gid.startswith("gid://shopify/") or not number(gid):
        raise refuse("BAD_REQUEST", f"Invalid global id {gid!r}")
    shop = shop_request.shop
    node: object | None = None
    if kind == "Product":
        node = shop.products.get(gid)
    elif kind == "ProductVariant":
        node = shop.variants.get(gid)
    elif kind == "InventoryItem":
        node = _item(shop, gid)
    elif kind == "Location":
        node = shop.locations.get(gid)
    elif kind == "BulkOperation":
        operation = shop_request.bulk.operations.get(gid)
        node = operation and operation.view(shop_request.at_s)
    elif kind == "Order":
        node = shop_request.trade.order_of(number(gid), shop_request.now)
    elif kind == "Customer":
        node = shop_request.trade.customer_of(number(gid))
    return node


def _nodes(_: object, info: Info, ids: Sequence[str]) -> list[object | None]:
    check_length(ids)
    return [find_node(info.context, node_id) for node_id in ids]


def _one_of(kind: str) -> Callable[..., Any]:
    def find(_: object, info: Info, **arguments: Any) -> object | None:  # noqa: ANN401
        gid = arguments["id"]
        is_kind = gid.startswith(f"gid://shopify/{kind}/")
        if not is_kind and kind == "BulkOperation":
            raise refuse("RESOURCE_NOT_FOUND", f"{gid} is not a bulk operation")
        return find_node(info.context, gid) if is_kind else None

    return find


def _locations(_: object, info: Info, **arguments: Any) -> ListedPage:  # noqa: ANN401
    locations = info.context.shop.locations.values()
    has_all = arguments["includeInactive"]
    return page([location for location in locations if location.is_active or has_all], arguments)


def _listed(name: str) -> Callable[..., Any]:
    """Resolve a sorted list; conditions on fields that it does not know are ignored."""

    def find(_: object, info: Info, **arguments: Any) -> ListedPage:  # noqa: ANN401
        query = arguments.get("query")
        for term in all_terms(query):
            if term.field not in FILTERS[name]:
                info.context.warn(name, query or "", term.field)
        trade = info.context.trade
        lists = {
            "orders": trade.list_orders,
            "customers": trade.list_customers,
            "products": trade.list_products,
        }
        return lists[name](info.context.now, arguments)

    return find


def _variants(_: object, info: Info, **arguments: Any) -> ListedPage:  # noqa: ANN401
    query = arguments.get("query")
    variants, unknown = search(info.context.shop, query)
    for name in unknown:
        info.context.warn("productVariants", query or "", name)
    return page(variants, arguments)


def _publications(_: object, info: Info, **arguments: Any) -> ListedPage:  # noqa: ANN401
    return page(publications.listed(info), arguments)


def _product_publications(product: ShopProduct, info: Info, **arguments: Any) -> ListedPage:  # noqa: ANN401
    return page(publications.listed_of(product, info), arguments)


def _by_identifier(_: object, info: Info, identifier: Mapping[str, Any]) -> ShopProduct | None:
    shop = info.context.shop
    if identifier.get("handle"):
        return shop.by_handle(identifier["handle"])
    return shop.products.get(identifier.get("id") or "")


def _bulk_operations(_: object, info: Info, **arguments: Any) -> ListedPage:  # noqa: ANN401
    shop_request = info.context
    views = [
        operation.view(shop_request.at_s) for operation in shop_request.bulk.operations.values()
    ]
    for term in (arguments.get("query") or "").split():
        field, _, value = term.partition(":")
        if field not in BULK_FILTERS:
            raise refuse("BAD_REQUEST", f"The simulated shop cannot search by {field!r}")
        views = [view for view in views if view[BULK_FILTERS[field]] == value.upper()]
    return page(views[::-1], arguments)


def _levels(item: Item, info: Info, **arguments: Any) -> ListedPage:  # noqa: ANN401
    levels = info.context.shop.levels(item.id)
    has_all = arguments["includeInactive"]
    return page([level for level in levels if level.is_active or has_all], arguments)


def _level(item: Item, info: Info, **arguments: Any) -> Level | None:  # noqa: ANN401
    level = info.context.shop.level(item.id, arguments["locationId"])
    is_seen = level is not None and (level.is_active or arguments["includeInactive"])
    return level if is_seen else None


def _quantities(level: Level, _: Info, names: Sequence[str]) -> list[Payload]:
    unknown = set(names) - NO_STOCK - set(stock.NAMES)
    if unknown:
        raise refuse("BAD_REQUEST", f"{min(unknown)!r} is not the name of a quantity")
    return [{"name": name, "quantity": 0 if name in NO_STOCK else level.quantity} for name in names]


def _unit_cost(item: Item, info: Info) -> Payload | None:
    if item.variant.cost is None:
        return None
    currency = info.context.shop.setup.currency
    return {"amount": short_text(item.variant.cost), "currencyCode": currency}


def _changes(group: Payload, _: Info, **arguments: Any) -> list[Payload]:  # noqa: ANN401
    names = {"inventoryItemIds": "item", "locationIds": "location", "quantityNames": "name"}
    filters = {
        attribute: arguments[name] for name, attribute in names.items() if arguments.get(name)
    }
    return [
        change
        for change in group["changes"]
        if all(change[name] in values for name, values in filters.items())
    ]


def _item(shop: SimulatedShop, item_id: str) -> Item | None:
    variant = shop.variants.get(shop.items.get(item_id, ""))
    return None if variant is None else Item(variant=variant)


def _total(variant: ShopVariant, info: Info) -> int:
    return sum(
        level.quantity for level in info.context.shop.levels(variant.item) if level.is_active
    )


def _product_variants(product: ShopProduct, info: Info, **arguments: Any) -> ListedPage:  # noqa: ANN401
    variants = [info.context.shop.variants[variant] for variant in product.variants]
    return page(variants, arguments)


def _installation(_: object, info: Info) -> Payload:
    scopes = info.context.shop.setup.scopes
    granted = [{"handle": scope} for scope in scopes]
    return {"id": "gid://shopify/AppInstallation/1", "accessScopes": granted}


def _some_of(name: str) -> Callable[..., Any]:
    """Resolve a list that may be cut to its first ones."""

    def cut(node: Mapping[str, Any], _: Info, first: int | None = None) -> Sequence[Any]:
        values: Sequence[Any] = node[name]
        return values if first is None else values[:first]

    return cut


def _parts_of(type_name: str) -> dict[str, Callable[..., Any]]:
    """Resolve the objects that rows of this type hold ready, so that they are counted."""
    kind = SCHEMA.type_map[type_name]
    assert isinstance(kind, GraphQLObjectType)
    names = [
        name for name, field in kind.fields.items() if not is_leaf_type(get_named_type(field.type))
    ]
    return {name: partial(_part, name) for name in names}


def _part(name: str, node: Mapping[str, Any], _: Info) -> object:
    return node[name]


def _buyer(order: Mapping[str, Any], info: Info) -> Payload | None:
    return None if order["customer"] is None else info.context.trade.customer_of(order["customer"])


def _title(variant: ShopVariant, _: Info) -> str:
    return " / ".join(value for _, value in variant.options)


def _changed_at(product: ShopProduct, info: Info) -> str | None:
    return clock_text(info.context.shop.changed_at(product.id))


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
    "edges": lambda page, _: [
        {"cursor": cursor, "node": node}
        for cursor, node in zip(page.cursors, page.nodes, strict=True)
    ],
    "pageInfo": lambda page, _: {
        "hasNextPage": page.has_next,
        "hasPreviousPage": page.has_previous,
        "startCursor": page.cursors[0] if page.cursors else None,
        "endCursor": page.cursors[-1] if page.cursors else None,
    },
}
RESOLVERS: dict[str, dict[str, Callable[..., Any]]] = {
    "QueryRoot": {
        "bulkOperation": _one_of("BulkOperation"),
        "bulkOperations": _bulk_operations,
        "currentAppInstallation": _installation,
        "customers": _listed("customers"),
        "inventoryItem": _one_of("InventoryItem"),
        "locations": _locations,
        "node": lambda _, info, id: find_node(info.context, id),  # noqa: A006 - as the API has it
        "nodes": _nodes,
        "order": _one_of("Order"),
        "orders": _listed("orders"),
        "product": _one_of("Product"),
        "products": _listed("products"),
        "productByIdentifier": _by_identifier,
        "productVariant": _one_of("ProductVariant"),
        "productVariants": _variants,
        "publications": _publications,
        "shop": lambda _, info: info.context.shop,
    },
    "Mutation": {
        "bulkOperationRunMutation": bulk.run_mutation,
        "inventoryActivate": stock.activate,
        "inventorySetQuantities": stock.set_quantities,
        "productSet": upsert.set_product,
        "productUpdate": products.update_product,
        "productVariantsBulkUpdate": products.update_variants,
        "publishablePublish": publications.publish,
        "publishableUnpublish": publications.unpublish,
        "stagedUploadsCreate": bulk.stage_uploads,
    },
    "Shop": {
        "currencyCode": lambda shop, _: shop.setup.currency,
        "myshopifyDomain": lambda shop, _: shop.setup.domain,
        "name": lambda shop, _: shop.setup.domain.partition(".")[0],
    },
    "Location": {"isActive": lambda location, _: location.is_active},
    "Product": {
        "descriptionHtml": lambda product, _: product.description,
        "publishedAt": publications.published_at,
        "publishedOnPublication": publications.is_published,
        "resourcePublicationsV2": _product_publications,
        "updatedAt": _changed_at,
        "variants": _product_variants,
        "variantsCount": lambda product, _: {"count": len(product.variants)},
    },
    "ProductVariant": {
        "compareAtPrice": lambda variant, _: money_text(variant.compare_at),
        "inventoryItem": lambda variant, _: Item(variant=variant),
        "inventoryPolicy": lambda variant, _: variant.policy,
        "inventoryQuantity": _total,
        "price": lambda variant, _: money_text(variant.price),
        "product": lambda variant, info: info.context.shop.products[variant.product],
        "title": _title,
    },
    "Publication": {
        "autoPublish": lambda _, __: False,
        "catalog": lambda publication, _: publications.catalog(publication),
    },
    "AppCatalog": {"apps": lambda catalog, _, **arguments: page(catalog["apps"], arguments)},
    "Order": {
        **_parts_of("Order"),
        "customer": _buyer,
        "fulfillments": _some_of("fulfillments"),
        "lineItems": lambda order, _, **arguments: page(order["lineItems"], arguments),
        "refunds": _some_of("refunds"),
        "transactions": _some_of("transactions"),
    },
    **{name: _parts_of(name) for name in ("Customer", "MoneyBag", "OrderTransaction", "Refund")},
    "LineItem": {
        **_parts_of("LineItem"),
        "variant": lambda line, info: info.context.shop.variants.get(line["variant"] or ""),
    },
    "Fulfillment": {"trackingInfo": _some_of("trackingInfo")},
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
for interface_name in ("Node", "Publishable", "Catalog"):
    interface = SCHEMA.type_map[interface_name]
    assert isinstance(interface, GraphQLInterfaceType)
    interface.resolve_type = _type_of
