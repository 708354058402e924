"""The orders of a simulated shop, and what customers, merchants and carriers do to them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from headway_lab.simulators.shopify.customers import Customers
from headway_lab.simulators.shopify.index import Index
from headway_lab.simulators.shopify.shop import SimulatedShop, number

CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoldLine:
    """A position; its variant may be gone from the shop, or never have been there."""

    number: int
    sku: str
    title: str
    quantity: int
    price: Decimal
    variant: str | None
    removed: int = 0

    @property
    def current(self) -> int:
        """The pieces that an edit of the order left."""
        return self.quantity - self.removed


@dataclass(frozen=True, slots=True, kw_only=True)
class SoldShipment:
    """A shipment of a part of an order, or of all of it."""

    number: int
    at: datetime
    company: str
    trackings: tuple[str, ...]
    is_whole: bool
    status: str = "SUCCESS"
    delivered_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundedLine:
    """A refund; its money moves by a transaction of its own."""

    number: int
    at: datetime
    amount: Decimal
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A transaction."""

    number: int
    at: datetime
    kind: str
    status: str
    amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class SoldOrder:
    """An order with all that belongs to it; its version numbers its states."""

    number: int
    name: str
    at: datetime
    updated_at: datetime
    customer: int | None
    lines: tuple[SoldLine, ...]
    shipping: Decimal
    tax: Decimal
    discount: Decimal
    shipments: tuple[SoldShipment, ...] = ()
    refunds: tuple[RefundedLine, ...] = ()
    moves: tuple[Move, ...] = ()
    cancelled_at: datetime | None = None
    closed_at: datetime | None = None

    @property
    def subtotal(self) -> Decimal:
        """The total of the positions, less the discount."""
        return sum((line.price * line.quantity for line in self.lines), -self.discount)

    @property
    def total(self) -> Decimal:
        """The amount to be paid."""
        return self.subtotal + self.shipping + self.tax

    @property
    def current_total(self) -> Decimal:
        """The amount to be paid after edits, which leave the total as it was."""
        return self.total - sum((line.price * line.removed for line in self.lines), Decimal(0))

    @property
    def got(self) -> Decimal:
        """The amount that was paid and not refunded."""
        return sum((_signed(move) for move in self.moves), Decimal(0))

    @property
    def financial(self) -> str:
        """What the merchant reads about the money."""
        paid = sum((move.amount for move in self.moves if _signed(move) > 0), Decimal(0))
        if paid == 0:
            kinds = [move.kind for move in self.moves if move.status == "SUCCESS"]
            last = kinds[-1] if kinds else ""
            return {"VOID": "VOIDED", "AUTHORIZATION": "AUTHORIZED"}.get(last, "PENDING")
        if self.got < paid:
            return "PARTIALLY_REFUNDED" if self.got > 0 else "REFUNDED"
        return "PAID" if paid >= self.total else "PARTIALLY_PAID"

    @property
    def fulfillment(self) -> str:
        """The fulfillment status that the merchant sees."""
        if not self.shipments:
            return "UNFULFILLED"
        is_whole = any(shipment.is_whole for shipment in self.shipments)
        return "FULFILLED" if is_whole else "PARTIALLY_FULFILLED"


class Orders:
    """The orders of one shop; every verb returns the order as it is then."""

    def __init__(self, shop: SimulatedShop, customers: Customers, numbers: Iterator[int]) -> None:
        self._shop = shop
        self._customers = customers
        self._numbers = numbers
        self.rows: dict[int, SoldOrder] = {}
        self.by_creation = Index()
        self.by_change = Index()

    def place(
        self,
        lines: Sequence[tuple[str, int]],
        *,
        now: datetime,
        customer: str | None = None,
        payment: str = "SALE",
        shipping: Decimal = Decimal("4.90"),
        tax: Decimal = Decimal(0),
        discount: Decimal = Decimal(0),
    ) -> SoldOrder:
        """Sell SKUs; the payment is a SALE, an AUTHORIZATION, or empty while it is awaited."""
        order = SoldOrder(
            number=next(self._numbers),
            name=f"#{1001 + len(self.rows)}",
            at=now,
            updated_at=now,
            customer=None if customer is None else int(customer),
            lines=tuple(self._line(sku, quantity) for sku, quantity in lines),
            shipping=shipping,
            tax=tax,
            discount=discount,
        )
        if payment:
            order = replace(order, moves=(self._move(payment, order.total, now),))
        self.by_creation.put(order.number, now)
        if order.customer is not None:
            self._customers.touch(order.customer, now)
        return self._put(order, now)

    def edit(
        self,
        order_id: str,
        adds: Sequence[tuple[str, int]] = (),
        *,
        removes: Sequence[tuple[str, int]] = (),
        now: datetime,
    ) -> SoldOrder:
        """Add positions, remove pieces of them, or only touch the order as a new tag does."""
        order, pieces = self.rows[int(order_id)], dict(removes)
        added = tuple(self._line(sku, quantity) for sku, quantity in adds)
        lines = tuple(
            replace(line, removed=min(line.quantity, line.removed + pieces.get(line.sku, 0)))
            for line in order.lines
        )
        return self._put(replace(order, lines=(*lines, *added)), now)

    def pay(self, order_id: str, *, now: datetime) -> SoldOrder:
        """Take the money that is still missing."""
        order = self.rows[int(order_id)]
        has_hold = any(move.kind == "AUTHORIZATION" for move in order.moves)
        move = self._move("CAPTURE" if has_hold else "SALE", order.total - order.got, now)
        return self._put(replace(order, moves=(*order.moves, move)), now)

    def decline(self, order_id: str, *, now: datetime) -> SoldOrder:
        """Let a payment fail."""
        order = self.rows[int(order_id)]
        move = replace(self._move("SALE", order.total, now), status="FAILURE")
        return self._put(replace(order, moves=(*order.moves, move)), now)

    def fulfil(
        self,
        order_id: str,
        *,
        now: datetime,
        company: str = "UPS",
        trackings: Sequence[str] = (),
        is_whole: bool = True,
    ) -> SoldOrder:
        """Ship a package; the one that completes a paid order closes it."""
        order = self.rows[int(order_id)]
        own = next(self._numbers)
        shipment = SoldShipment(
            number=own,
            at=now,
            company=company,
            trackings=tuple(trackings) or (f"1Z{own}",),
            is_whole=is_whole,
        )
        is_over = is_whole and order.got >= order.total
        closed_at = order.closed_at or (now if is_over else None)
        return self._put(
            replace(order, shipments=(*order.shipments, shipment), closed_at=closed_at), now
        )

    def deliver(self, order_id: str, *, now: datetime) -> SoldOrder:
        """Deliver every package."""
        order = self.rows[int(order_id)]
        shipments = tuple(
            replace(shipment, delivered_at=shipment.delivered_at or now)
            for shipment in order.shipments
        )
        return self._put(replace(order, shipments=shipments), now)

    def refund(
        self, order_id: str, amount: Decimal | None = None, *, now: datetime, note: str = ""
    ) -> SoldOrder:
        """Refund that much, or all that is left."""
        order = self.rows[int(order_id)]
        amount_due = order.got if amount is None else min(amount, order.got)
        back = RefundedLine(number=next(self._numbers), at=now, amount=amount_due, note=note)
        refunds, moves = (*order.refunds, back), order.moves
        if amount_due > 0:
            moves = (*moves, self._move("REFUND", amount_due, now))
        return self._put(replace(order, refunds=refunds, moves=moves), now)

    def cancel(self, order_id: str, *, now: datetime) -> SoldOrder:
        """Cancel an order: payments are refunded, authorizations released."""
        order = self.rows[int(order_id)]
        if order.got > 0:
            order = self.refund(order_id, now=now, note="cancelled")
        elif order.financial == "AUTHORIZED":
            void = self._move("VOID", order.total, now)
            order = replace(order, moves=(*order.moves, void))
        return self._put(replace(order, cancelled_at=now, closed_at=order.closed_at or now), now)

    def delete(self, order_id: str) -> None:
        """Delete an order, as merchants may with some."""
        del self.rows[int(order_id)]
        self.by_change.drop(int(order_id))
        self.by_creation.drop(int(order_id))

    def reassign(self, customer: int, kept: int, *, now: datetime) -> None:
        """Give the orders of one customer to another."""
        for order in list(self.rows.values()):
            if order.customer == customer:
                self._put(replace(order, customer=kept), now)

    def _put(self, order: SoldOrder, now: datetime) -> SoldOrder:
        self.rows[order.number] = replace(order, updated_at=now)
        self.by_change.put(order.number, now)
        return self.rows[order.number]

    def _line(self, sku: str, quantity: int) -> SoldLine:
        variants = self._shop.by_sku(sku)
        price, title = Decimal("10.00"), sku
        if variants:
            price, title = variants[0].price, self._shop.products[variants[0].product].title
        return SoldLine(
            number=next(self._numbers),
            sku=sku,
            title=title,
            quantity=quantity,
            price=price.quantize(CENT),
            variant=str(number(variants[0].id)) if variants else None,
        )

    def _move(self, kind: str, amount: Decimal, now: datetime) -> Move:
        return Move(number=next(self._numbers), at=now, kind=kind, status="SUCCESS", amount=amount)


def _signed(move: Move) -> Decimal:
    if move.status != "SUCCESS":
        return Decimal(0)
    if move.kind in {"SALE", "CAPTURE"}:
        return move.amount
    return -move.amount if move.kind == "REFUND" else Decimal(0)
