"""The GraphQL that reads a shop's orders, listings and customers, and what it is likely to cost.

A call may cost 1,000 points. An object or a plain list costs one and what is selected of it, money
and addresses nothing; a list with pages costs two, and its rows by the logarithm of their number.
The lists inside an order are cut: an order that may have more rows is requested by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from math import floor, log
from typing import Any

from headway.core.accounts.pagination import PageRequest
from headway.providers.shopify.queries import Document

ORDERS, LINES, SHIPMENTS, REFUNDS, MOVES = 100, 50, 10, 10, 20
PRODUCTS, VARIANTS = 100, 100
PAGE_MAX = 250
# Sizes of a page: what fails is asked for in smaller ones.
PAGE_SIZES: Mapping[str, Sequence[int]] = {
    "orders": (ORDERS, 25, 5, 1),
    "products": (PRODUCTS, 25, 5, 1),
    "variants": (PAGE_MAX, 50, 10, 1),
    "customers": (PAGE_MAX, 50, 10, 1),
    "all_customers": (PAGE_MAX, 50, 10, 1),
}
SORT_KEYS = {"updated_at": "UPDATED_AT", "created_at": "CREATED_AT"}

ORDER = """
fragment Head on Order {
  id name createdAt processedAt updatedAt cancelledAt closedAt
  displayFinancialStatus displayFulfillmentStatus
  customer { id }
  totalPriceSet { ...Sum }
  currentTotalPriceSet { ...Sum }
  subtotalPriceSet { ...Sum }
  totalShippingPriceSet { ...Sum }
  totalTaxSet { ...Sum }
  totalDiscountsSet { ...Sum }
}
fragment Sum on MoneyBag { shopMoney { amount currencyCode } }
fragment Line on LineItem {
  id sku title quantity currentQuantity variant { id } originalUnitPriceSet { ...Sum }
}
fragment Shipment on Fulfillment {
  id status createdAt deliveredAt trackingInfo { company number }
}
fragment Back on Refund { id createdAt note totalRefundedSet { ...Sum } }
fragment Move on OrderTransaction { id kind status createdAt processedAt amountSet { ...Sum } }
"""
SEEN_ORDER = f"""
fragment Seen on Order {{
  ...Head
  lineItems(first: $lines) {{ nodes {{ ...Line }} pageInfo {{ hasNextPage endCursor }} }}
  fulfillments(first: $shipments) {{ ...Shipment }}
  refunds(first: $refunds) {{ ...Back }}
  transactions(first: $moves) {{ ...Move }}
}}
{ORDER}"""
COUNTS = "$lines: Int!, $shipments: Int!, $refunds: Int!, $moves: Int!"
LIST_ORDERS = f"""
query Orders(
  $first: Int!, $after: String, $search: String!, $sort: OrderSortKeys!, {COUNTS}
) {{
  orders(first: $first, after: $after, query: $search, sortKey: $sort) {{
    nodes {{ ...Seen }} pageInfo {{ hasNextPage endCursor }}
  }}
}}
{SEEN_ORDER}"""
NAMED_ORDERS = f"""
query NamedOrders($ids: [ID!]!, {COUNTS}) {{ nodes(ids: $ids) {{ ...Seen }} }}
{SEEN_ORDER}"""
ONE_ORDER = f"""
query OneOrder($id: ID!, $lines: Int!, $after: String) {{
  order(id: $id) {{
    ...Head
    lineItems(first: $lines, after: $after) {{
      nodes {{ ...Line }} pageInfo {{ hasNextPage endCursor }}
    }}
    fulfillments {{ ...Shipment }}
    refunds {{ ...Back }}
    transactions {{ ...Move }}
  }}
}}
{ORDER}"""
VARIANT = """
fragment Variant on ProductVariant { id sku title price inventoryQuantity }
"""
SEEN_PRODUCT = f"""
fragment Seen on Product {{
  id title status updatedAt
  variants(first: $variants, after: $after_variant) {{
    nodes {{ ...Variant }} pageInfo {{ hasNextPage endCursor }}
  }}
}}
{VARIANT}"""
LIST_PRODUCTS = f"""
query Products(
  $first: Int!, $after: String, $search: String!, $variants: Int!, $after_variant: String
) {{
  shop {{ currencyCode }}
  products(first: $first, after: $after, query: $search, sortKey: UPDATED_AT) {{
    nodes {{ ...Seen }} pageInfo {{ hasNextPage endCursor }}
  }}
}}
{SEEN_PRODUCT}"""
NAMED_PRODUCTS = f"""
query NamedProducts($ids: [ID!]!, $variants: Int!, $after_variant: String) {{
  shop {{ currencyCode }}
  nodes(ids: $ids) {{ ...Seen }}
}}
{SEEN_PRODUCT}"""
ALL_VARIANTS = f"""
query AllVariants($first: Int!, $after: String, $search: String!) {{
  shop {{ currencyCode }}
  productVariants(first: $first, after: $after, query: $search, sortKey: ID) {{
    nodes {{ ...Variant product {{ title status updatedAt }} }} pageInfo {{ hasNextPage }}
  }}
}}
{VARIANT}"""
CUSTOMER = """
fragment Seen on Customer {
  id displayName updatedAt defaultEmailAddress { emailAddress } defaultAddress { countryCodeV2 }
}
"""
LIST_CUSTOMERS = f"""
query Customers($first: Int!, $after: String, $search: String!, $sort: CustomerSortKeys!) {{
  customers(first: $first, after: $after, query: $search, sortKey: $sort) {{
    nodes {{ ...Seen }} pageInfo {{ hasNextPage endCursor }}
  }}
}}
{CUSTOMER}"""
NAMED_CUSTOMERS = f"""
query NamedCustomers($ids: [ID!]!) {{ nodes(ids: $ids) {{ ...Seen }} }}
{CUSTOMER}"""
# The ids and cursors of a few rows, without what makes their page fail; the ids may fail too.
PEEKS = {
    name: f"""
query Peek($first: Int!, $after: String, $search: String!, $sort: {kind}SortKeys!, $ids: Boolean!)
{{
  rows: {field}(first: $first, after: $after, query: $search, sortKey: $sort) {{
    edges {{ cursor node @include(if: $ids) {{ id }} }} pageInfo {{ hasNextPage }}
  }}
}}
"""
    for name, field, kind in (
        ("orders", "orders", "Order"),
        ("products", "products", "Product"),
        ("variants", "productVariants", "ProductVariant"),
        ("customers", "customers", "Customer"),
        ("all_customers", "customers", "Customer"),
    )
}
GRANTED = "query Granted { currentAppInstallation { accessScopes { handle } } }"

Values = Mapping[str, Any]


def document_of(ask: PageRequest, *, after: str | None = None) -> Document:
    """Return the document of a request; `after` is how far one order or product was read."""
    return MAKERS[ask.what](ask.values, after)


def price_of(ask: PageRequest) -> int:
    """Return what that request is likely to cost in points."""
    return PRICES[ask.what](ask.values)


def gid(kind: str, number: str) -> str:
    """Return the platform's long id."""
    return f"gid://shopify/{kind}/{number}"


def _orders(values: Values, _: str | None) -> Document:
    field = values["field"]
    search = _since(field, values)
    if values.get("until"):
        search += f" AND {field}:<='{_moment(values['until'])}'"
    paging = _paging("orders", values, search)
    return Document(
        text=LIST_ORDERS, variables={**paging, "sort": SORT_KEYS[field], **_order_counts()}
    )


def _orders_by_id(values: Values, _: str | None) -> Document:
    ids = [gid("Order", order_id) for order_id in values["ids"]]
    return Document(text=NAMED_ORDERS, variables={"ids": ids, **_order_counts()})


def _order(values: Values, after: str | None) -> Document:
    variables = {"id": gid("Order", values["id"]), "lines": PAGE_MAX, "after": after}
    return Document(text=ONE_ORDER, variables=variables)


def _order_counts() -> dict[str, int]:
    return {"lines": LINES, "shipments": SHIPMENTS, "refunds": REFUNDS, "moves": MOVES}


def _products(values: Values, _: str | None) -> Document:
    paging = _paging("products", values, _since("updated_at", values))
    variables = {**paging, "variants": VARIANTS, "after_variant": None}
    return Document(text=LIST_PRODUCTS, variables=variables)


def _products_by_id(values: Values, _: str | None) -> Document:
    ids = [gid("Product", product_id) for product_id in values["ids"]]
    variables = {"ids": ids, "variants": VARIANTS, "after_variant": None}
    return Document(text=NAMED_PRODUCTS, variables=variables)


def _product(values: Values, after: str | None) -> Document:
    ids = [gid("Product", values["id"])]
    variables = {"ids": ids, "variants": PAGE_MAX, "after_variant": after}
    return Document(text=NAMED_PRODUCTS, variables=variables)


def _variants(values: Values, _: str | None) -> Document:
    return Document(text=ALL_VARIANTS, variables=_paging("variants", values, _above(values)))


def _customers(values: Values, _: str | None) -> Document:
    paging = _paging("customers", values, _since("updated_at", values))
    return Document(text=LIST_CUSTOMERS, variables={**paging, "sort": "UPDATED_AT"})


def _all_customers(values: Values, _: str | None) -> Document:
    paging = _paging("all_customers", values, _above(values))
    return Document(text=LIST_CUSTOMERS, variables={**paging, "sort": "ID"})


def _peek(values: Values, _: str | None) -> Document:
    name = values["list"]
    whole = MAKERS[name](values, None).variables
    variables = {part: whole[part] for part in ("first", "after", "search")}
    sort = SORT_KEYS[values["field"]] if "field" in values else "ID"
    return Document(
        text=PEEKS[name], variables={**variables, "sort": sort, "ids": values["has_ids"]}
    )


def _paging(name: str, values: Values, search: str) -> dict[str, Any]:
    return {"first": _first(name, values), "after": values.get("after"), "search": search}


def _first(name: str, values: Values) -> int:
    first: int = values.get("first", PAGE_SIZES[name][0])
    return first


def _above(values: Values) -> str:
    return f"id:>{values['above']}"


def _customers_by_id(values: Values, _: str | None) -> Document:
    ids = [gid("Customer", customer_id) for customer_id in values["ids"]]
    return Document(text=NAMED_CUSTOMERS, variables={"ids": ids})


def _since(field: str, values: Values) -> str:
    return f"{field}:>='{_moment(values['since'])}'"


def _moment(instant: str) -> str:
    """Write an instant as the platform does: its stamps know no parts of a second."""
    return f"{datetime.fromisoformat(instant).astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


MAKERS: Mapping[str, Callable[[Values, str | None], Document]] = {
    "orders": _orders,
    "orders_by_id": _orders_by_id,
    "order": _order,
    "products": _products,
    "products_by_id": _products_by_id,
    "product": _product,
    "variants": _variants,
    "customers": _customers,
    "customers_by_id": _customers_by_id,
    "all_customers": _all_customers,
    "peek": _peek,
    "scopes": lambda _, __: Document(text=GRANTED, variables={}),
}


def _list_points(first: int, row_points: int) -> int:
    """Return the cost of a list with pages whose rows hold objects of so many points."""
    return 2 + max(1, floor(2 * log(first))) * (1 + row_points)


def _order_points(lines: int) -> int:
    """Return the cost of what an order holds: customer, positions, shipments, refunds, payments."""
    return 1 + _list_points(lines, 1) + 2 + 1 + 1


PRICES: Mapping[str, Callable[[Values], int]] = {
    "orders": lambda values: _list_points(_first("orders", values), _order_points(LINES)),
    "orders_by_id": lambda _: 1 + _order_points(LINES),
    "order": lambda _: 1 + _order_points(PAGE_MAX),
    "products": lambda values: (
        1 + _list_points(_first("products", values), _list_points(VARIANTS, 0))
    ),
    "products_by_id": lambda _: 2 + _list_points(VARIANTS, 0),
    "product": lambda _: 2 + _list_points(PAGE_MAX, 0),
    "variants": lambda values: 1 + _list_points(_first("variants", values), 1),
    "customers": lambda values: _list_points(_first("customers", values), 1),
    "customers_by_id": lambda _: 2,
    "all_customers": lambda values: _list_points(_first("all_customers", values), 1),
    "peek": lambda values: _list_points(values["first"], 0),
    "scopes": lambda _: 2,
}
