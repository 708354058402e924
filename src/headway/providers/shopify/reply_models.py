"""Orders, listings and customers in a shop's replies; fields have the names of our records.

An order's `total` is before returns, and a position's quantity and price are as it was ordered:
refunds stand apart, so nothing counts twice. What an edit of the order or a return leaves of both
is `current_total` and `current_quantity`.
"""

import re
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AliasPath,
    Field,
    PlainValidator,
    TypeAdapter,
    model_validator,
)

from headway.core.accounts.warehouse import (
    Customer,
    LineItem,
    Order,
    Payment,
    Refund,
    Shipment,
    ShopListing,
)
from headway.providers.reply_fields import (
    Amount,
    CamelModel,
    ExactText,
    Flag,
    Instant,
    OptionalText,
    SignedCount,
    Text,
    read_amount,
)

GID = re.compile(r"gid://shopify/\w+/([0-9]{1,20})")
# What the seller gets; a hold, its end, and what failed move nothing, and are kept with nothing.
SIGNS = {"SALE": 1, "CAPTURE": 1, "REFUND": -1, "CHANGE": -1}
PLAIN_VARIANT = "Default Title"
MONEY, CURRENCY = "shopMoney", "currencyCode"


def _number(value: object) -> str:
    match = GID.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("no id")
    return match[1]


def _reference(value: object) -> str:
    return _number(value.get("id") if isinstance(value, dict) else None)


def _sum(value: object) -> Decimal:
    money = value.get(MONEY) if isinstance(value, dict) else None
    return read_amount(money.get("amount") if isinstance(money, dict) else None)


# The number at the end of the platform's long id; a reference is an object with such an id.
ShopifyNumber = Annotated[str, PlainValidator(_number)]
Reference = Annotated[str, PlainValidator(_reference)]
# An amount in the currency of the shop.
ShopSum = Annotated[Decimal, PlainValidator(_sum)]
Word = Annotated[OptionalText, AfterValidator(str.lower)]
NUMBER = TypeAdapter(ShopifyNumber)


class ShopifyLine(CamelModel):
    """A position of an order."""

    external_id: ShopifyNumber = Field(validation_alias="id")
    quantity: SignedCount
    current_quantity: SignedCount | None = None
    price: ShopSum = Field(validation_alias="originalUnitPriceSet")
    currency: Text = Field(validation_alias=AliasPath("originalUnitPriceSet", MONEY, CURRENCY))
    title: OptionalText
    sku: OptionalText = ""
    listing_id: Reference | None = Field(None, validation_alias="variant")


class ShopifyTracking(CamelModel):
    """A carrier and its tracking number."""

    company: OptionalText = ""
    number: OptionalText = ""


class ShopifyFulfillment(CamelModel):
    """A shipment of an order."""

    external_id: ShopifyNumber = Field(validation_alias="id")
    status: Word = ""
    created_at: Instant
    delivered_at: Instant | None = None
    tracking_info: list[ShopifyTracking]

    @property
    def record(self) -> Shipment:
        """The shipment as it is stored."""
        carriers = dict.fromkeys(tracking.company for tracking in self.tracking_info)
        numbers = [tracking.number for tracking in self.tracking_info]
        return Shipment(
            external_id=self.external_id,
            status=self.status,
            carrier=", ".join(filter(None, carriers)),
            tracking=", ".join(filter(None, numbers)),
            shipped_at=self.created_at,
            delivered_at=self.delivered_at,
        )


class ShopifyRefund(CamelModel):
    """Money given back on an order."""

    external_id: ShopifyNumber = Field(validation_alias="id")
    amount: ShopSum = Field(validation_alias="totalRefundedSet")
    currency: Text = Field(validation_alias=AliasPath("totalRefundedSet", MONEY, CURRENCY))
    reason: OptionalText = Field("", validation_alias="note")
    refunded_at: Instant | None = Field(None, validation_alias="createdAt")


class ShopifyTransaction(CamelModel):
    """A movement of money on an order."""

    external_id: ShopifyNumber = Field(validation_alias="id")
    kind: Text
    status: Text
    created_at: Instant
    processed_at: Instant | None = None
    amount: ShopSum = Field(validation_alias="amountSet")
    currency: Text = Field(validation_alias=AliasPath("amountSet", MONEY, CURRENCY))

    def record(self, order_id: str) -> Payment:
        """Return the movement as it is stored."""
        sign = SIGNS.get(self.kind, 0) if self.status == "SUCCESS" else 0
        return Payment(
            external_id=self.external_id,
            kind=self.kind.lower(),
            amount=self.amount * sign if sign else Decimal(0),
            currency=self.currency,
            paid_at=self.processed_at or self.created_at,
            status=self.status.lower(),
            order_id=order_id,
        )


class ShopifyOrder(CamelModel):
    """A row of the list of orders."""

    external_id: ShopifyNumber = Field(validation_alias="id")
    number: OptionalText = Field(validation_alias="name")
    placed_at: Instant = Field(validation_alias="processedAt")
    modified_at: Instant = Field(validation_alias="updatedAt")
    cancelled_at: Instant | None = None
    closed_at: Instant | None = None
    payment_status: Word = Field("", validation_alias="displayFinancialStatus")
    fulfillment_status: Word = Field("", validation_alias="displayFulfillmentStatus")
    customer_id: Reference | None = Field(None, validation_alias="customer")
    total: ShopSum = Field(validation_alias="totalPriceSet")
    currency: Text = Field(validation_alias=AliasPath("totalPriceSet", MONEY, CURRENCY))
    current_total: ShopSum | None = Field(None, validation_alias="currentTotalPriceSet")
    subtotal: ShopSum | None = Field(None, validation_alias="subtotalPriceSet")
    shipping: ShopSum | None = Field(None, validation_alias="totalShippingPriceSet")
    tax: ShopSum | None = Field(None, validation_alias="totalTaxSet")
    discount: ShopSum | None = Field(None, validation_alias="totalDiscountsSet")
    line_items: list[ShopifyLine] = Field(validation_alias=AliasPath("lineItems", "nodes"))
    fulfillments: list[ShopifyFulfillment]
    refunds: list[ShopifyRefund]
    transactions: list[ShopifyTransaction]

    @property
    def record(self) -> Order:
        """The order as it is stored."""
        status = "closed" if self.closed_at else "open"
        own = {"closed_at", "fulfillments", "transactions", "line_items", "refunds"}
        return Order(
            **{name: value for name, value in vars(self).items() if name not in own},
            status="cancelled" if self.cancelled_at else status,
            # Whatever happens to it moves its stamp, so it is read again.
            is_open=False,
            line_items=tuple(LineItem(**vars(line)) for line in self.line_items),
            shipments=tuple(shipment.record for shipment in self.fulfillments),
            refunds=tuple(Refund(**vars(refund)) for refund in self.refunds),
        )


class ShopifyListing(CamelModel):
    """A variant with its product."""

    external_id: ShopifyNumber = Field(validation_alias="id")
    title: OptionalText
    sku: OptionalText = ""
    price: Amount
    quantity: SignedCount | None = Field(None, validation_alias="inventoryQuantity")
    product_title: OptionalText = Field(validation_alias=AliasPath("product", "title"))
    state: Word = Field("", validation_alias=AliasPath("product", "status"))
    modified_at: Instant = Field(validation_alias=AliasPath("product", "updatedAt"))

    def record(self, currency: str) -> ShopListing:
        """Return the listing as it is stored."""
        title, option = self.product_title, self.title
        return ShopListing(
            external_id=self.external_id,
            state=self.state,
            sku=self.sku,
            title=title if option == PLAIN_VARIANT else f"{title} - {option}",
            price=self.price,
            currency=currency,
            quantity=self.quantity,
            modified_at=self.modified_at,
        )


class ShopifyPageInfo(CamelModel):
    """How a list goes on."""

    has_next_page: Flag
    end_cursor: ExactText | None = None


class ShopifyList(CamelModel):
    """A list of rows that are read one by one."""

    nodes: list[Any]
    page_info: ShopifyPageInfo


class ShopifyCursorList(ShopifyList):
    """A list that goes on at a cursor, if it goes on."""

    @property
    def next(self) -> str | None:
        """The cursor of the next page, if there is one."""
        return self.page_info.end_cursor if self.page_info.has_next_page else None

    @model_validator(mode="after")
    def _check_next(self) -> Self:
        if self.page_info.has_next_page and not (self.next and self.nodes):
            raise ValueError("a list that goes on nowhere")
        return self


class ShopifyEdge(CamelModel):
    """The cursor of a row, and perhaps its id."""

    cursor: ExactText
    node: Any = None


class ShopifyEdges(CamelModel):
    """A list of cursors."""

    edges: list[ShopifyEdge]


class ShopifyOrderPart(CamelModel):
    """An order of very many positions, some of which are on this page."""

    updated_at: Text
    line_items: ShopifyCursorList


class ShopifyProduct(CamelModel):
    """A row of the list of products."""

    id: ShopifyNumber
    variants: ShopifyCursorList


class ShopifyCustomer(CamelModel):
    """A row of the list of customers."""

    external_id: ShopifyNumber = Field(validation_alias="id")
    name: OptionalText = Field(validation_alias="displayName")
    email: OptionalText = Field(
        "", validation_alias=AliasPath("defaultEmailAddress", "emailAddress")
    )
    country: OptionalText = Field("", validation_alias=AliasPath("defaultAddress", "countryCodeV2"))
    modified_at: Instant = Field(validation_alias="updatedAt")

    @property
    def record(self) -> Customer:
        """The customer as it is stored."""
        return Customer(**vars(self))


class ShopifyShop(CamelModel):
    """The shop itself."""

    currency_code: Text


class ShopifyScope(CamelModel):
    """A permission that the shop granted the app."""

    handle: Text


class ShopifyInstallation(CamelModel):
    """The app in the shop."""

    access_scopes: list[ShopifyScope]
