"""How a simulated shop shows its orders and customers in replies.

Without the scope `read_all_orders` orders are shown for 60 days. A list shows a change a few
seconds late. A customer's time of change is compared by whole days.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from graphql import GraphQLError

from headway_lab.simulators.shopify.customers import Customers, ShopCustomer
from headway_lab.simulators.shopify.index import Index, Place
from headway_lab.simulators.shopify.lists import (
    FAR,
    ListedPage,
    Term,
    bounds,
    cut_page,
    read_terms,
    span,
)
from headway_lab.simulators.shopify.orders import (
    Move,
    Orders,
    RefundedLine,
    SoldLine,
    SoldOrder,
    SoldShipment,
)
from headway_lab.simulators.shopify.schema import check_scope, short_text
from headway_lab.simulators.shopify.shop import SimulatedShop

HORIZON = timedelta(days=60)
# What each list can be searched by.
FILTERS = {
    "orders": ("updated_at", "created_at"),
    "customers": ("updated_at", "id"),
    "products": ("updated_at",),
}
Node = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Trade:
    """The orders and customers of a shop, and which of them an app may see."""

    shop: SimulatedShop
    orders: Orders
    customers: Customers
    lag_s: float = 0.0
    nodes: dict[int, tuple[SoldOrder, Node]] = field(default_factory=dict)

    def list_orders(self, now: datetime, arguments: Mapping[str, Any]) -> ListedPage:
        """Return a page of orders; raises GraphQLError."""
        self.need("read_orders", "orders")
        is_by_change = arguments["sortKey"] == "UPDATED_AT"
        if arguments["sortKey"] == "ID":
            raise GraphQLError("The simulated shop does not sort orders by id")
        own = "updated_at" if is_by_change else "created_at"
        terms = read_terms(arguments.get("query"), FILTERS["orders"])
        index = self.orders.by_change if is_by_change else self.orders.by_creation
        places = self._seen(index, now)
        between = [bounds(term) for term in terms if term.field == own]
        if is_by_change:
            between.append(self._known_by(now))
        for term in terms:
            if term.field != own:
                others = self.orders.by_creation if is_by_change else self.orders.by_change
                places = _among(places, others, bounds(term))
        return cut_page(places, arguments, between=between, rows=_Shown(self.order_node))

    def list_customers(self, now: datetime, arguments: Mapping[str, Any]) -> ListedPage:
        """Return a page of customers; raises GraphQLError."""
        self.need("read_customers", "customers")
        terms = read_terms(arguments.get("query"), FILTERS["customers"])
        by_id: list[Place] = [(float(row), row) for row in self.customers.rows]
        if arguments["sortKey"] == "UPDATED_AT":
            own, places = "updated_at", self.customers.by_change.places()
            between = [self._known_by(now)]
        else:
            own, places, between = "id", by_id, []
        for term in terms:
            lies = _by_number(term) if term.field == "id" else bounds(term, has_whole_days=True)
            if term.field == own:
                between.append(lies)
            elif own == "id":
                places = _among(places, self.customers.by_change, lies)
        return cut_page(places, arguments, between=between, rows=_Shown(self.customer_node))

    def list_products(self, now: datetime, arguments: Mapping[str, Any]) -> ListedPage:
        """Return a page of products; raises GraphQLError."""
        self.need("read_products", "products")
        terms = read_terms(arguments.get("query"), FILTERS["products"])
        if arguments["sortKey"] != "UPDATED_AT":
            raise GraphQLError("The simulated shop sorts products by their change only")
        between = [self._known_by(now), *(bounds(term) for term in terms)]
        products = self.shop.products
        rows = _Shown(lambda own: products[f"gid://shopify/Product/{own}"])
        return cut_page(self.shop.by_change.places(), arguments, between=between, rows=rows)

    def need(self, scope: str, name: str) -> None:
        """Refuse what the merchant did not grant."""
        check_scope(self.shop.setup.scopes, scope, name)

    def order_of(self, own: int, now: datetime) -> Node | None:
        """Return the order of that number, if it exists and may be seen."""
        self.need("read_orders", "order")
        order = self.orders.rows.get(own)
        return self.order_node(own) if order is not None and self._is_seen(order, now) else None

    def customer_of(self, own: int) -> Node | None:
        """Return the customer of that number, if there is one."""
        self.need("read_customers", "customer")
        return self.customer_node(own) if own in self.customers.rows else None

    def order_node(self, own: int) -> Node:
        """Return an order as it is shown; made once for every state of it."""
        order = self.orders.rows[own]
        known = self.nodes.get(own)
        if known is None or known[0] is not order:
            known = self.nodes[own] = (order, _order_node(order, self.shop.setup.currency))
        return known[1]

    def customer_node(self, own: int) -> Node:
        """Return a customer as shown."""
        return _customer_node(self.customers.rows[own])

    def _seen(self, index: Index, now: datetime) -> list[Place]:
        places, oldest = index.places(), self.orders.by_creation.places()[:1]
        if "read_all_orders" in self.shop.setup.scopes or not oldest:
            return places
        since = (now - HORIZON).timestamp()
        if oldest[0][0] >= since:
            return places
        return _among(places, self.orders.by_creation, span(">=", since, since))

    def _is_seen(self, order: SoldOrder, now: datetime) -> bool:
        has_all = "read_all_orders" in self.shop.setup.scopes
        return has_all or order.at >= now - HORIZON

    def _known_by(self, now: datetime) -> tuple[Place, Place]:
        return span("<=", 0.0, now.timestamp() - self.lag_s)


class _Shown:
    """Rows that are made when they are looked at."""

    def __init__(self, show: Callable[[int], Any]) -> None:
        self._show = show

    def __getitem__(self, own: int) -> Any:  # noqa: ANN401 - whatever a list holds
        return self._show(own)


def money_bag(amount: Decimal, currency: str) -> Node:
    """Write an amount as the API does."""
    return {"shopMoney": {"amount": short_text(amount), "currencyCode": currency}}


def clock_text(instant: datetime | None) -> str | None:
    """Format a time as the API does."""
    return None if instant is None else f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def _among(places: Sequence[Place], others: Index, between: tuple[Place, Place]) -> list[Place]:
    low, high = between
    return [place for place in places if low <= (others.stamp(place[1]), place[1]) <= high]


def _by_number(term: Term) -> tuple[Place, Place]:
    own = float(term.value) if term.value.isdigit() else float(FAR)
    return span(term.sign, own, own)


def _order_node(order: SoldOrder, currency: str) -> Node:
    return {
        "__typename": "Order",
        "id": f"gid://shopify/Order/{order.number}",
        "name": order.name,
        "createdAt": clock_text(order.at),
        "processedAt": clock_text(order.at),
        "updatedAt": clock_text(order.updated_at),
        "cancelledAt": clock_text(order.cancelled_at),
        "closedAt": clock_text(order.closed_at),
        "currencyCode": currency,
        "currentTotalPriceSet": money_bag(order.current_total, currency),
        "customer": order.customer,
        "displayFinancialStatus": order.financial,
        "displayFulfillmentStatus": order.fulfillment,
        "subtotalPriceSet": money_bag(order.subtotal, currency),
        "totalDiscountsSet": money_bag(order.discount, currency),
        "totalPriceSet": money_bag(order.total, currency),
        "totalShippingPriceSet": money_bag(order.shipping, currency),
        "totalTaxSet": money_bag(order.tax, currency),
        "lineItems": [_line_node(line, currency) for line in order.lines],
        "fulfillments": [_shipment_node(shipment) for shipment in order.shipments],
        "refunds": [_refund_node(refund, currency) for refund in order.refunds],
        "transactions": [_move_node(move, currency) for move in order.moves],
    }


def _line_node(line: SoldLine, currency: str) -> Node:
    return {
        "currentQuantity": line.current,
        "id": f"gid://shopify/LineItem/{line.number}",
        "originalUnitPriceSet": money_bag(line.price, currency),
        "quantity": line.quantity,
        "sku": line.sku or None,
        "title": line.title,
        "variant": line.variant and f"gid://shopify/ProductVariant/{line.variant}",
    }


def _shipment_node(shipment: SoldShipment) -> Node:
    return {
        "id": f"gid://shopify/Fulfillment/{shipment.number}",
        "createdAt": clock_text(shipment.at),
        "deliveredAt": clock_text(shipment.delivered_at),
        "status": shipment.status,
        "trackingInfo": [
            {"company": shipment.company, "number": tracking} for tracking in shipment.trackings
        ],
    }


def _refund_node(refund: RefundedLine, currency: str) -> Node:
    return {
        "id": f"gid://shopify/Refund/{refund.number}",
        "createdAt": clock_text(refund.at),
        "note": refund.note or None,
        "totalRefundedSet": money_bag(refund.amount, currency),
    }


def _move_node(move: Move, currency: str) -> Node:
    return {
        "id": f"gid://shopify/OrderTransaction/{move.number}",
        "amountSet": money_bag(move.amount, currency),
        "createdAt": clock_text(move.at),
        "processedAt": clock_text(move.at),
        "kind": move.kind,
        "status": move.status,
    }


def _customer_node(customer: ShopCustomer) -> Node:
    email, country = customer.email, customer.country
    return {
        "__typename": "Customer",
        "id": f"gid://shopify/Customer/{customer.number}",
        "createdAt": clock_text(customer.at),
        "updatedAt": clock_text(customer.updated_at),
        "displayName": customer.name,
        "defaultEmailAddress": {"emailAddress": email} if email else None,
        "defaultAddress": {
            "id": f"gid://shopify/MailingAddress/{customer.number}",
            "countryCodeV2": country,
        }
        if country
        else None,
    }
