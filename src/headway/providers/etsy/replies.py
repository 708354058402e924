"""Read Etsy's replies into warehouse records; a malformed row is set aside.

Money comes as an amount and a divisor, or in a ledger as minor units, and is kept exact. Etsy
reports neither when an order was canceled nor when a parcel arrived. A refund has no id: its
second, and its place among those of that second, identify it. A buyer's data is from the newest
order.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, NoReturn, TypeVar

from headway.core.accounts.pagination import Page
from headway.core.accounts.warehouse import (
    Customer,
    LineItem,
    Order,
    Payment,
    Records,
    Refund,
    Shipment,
    ShopListing,
    Unreadable,
)
from headway.errors import UnreadableError
from headway.providers.excerpt import excerpt

PROVIDER = "etsy"
FIRST_S, LAST_S = 946_684_800, 4_102_444_800
AMOUNT_MAX, COUNT_MAX, TEXT_CHARS_MAX = 10**15, 2**31 - 1, 5000
# Currencies whose minor unit is not a hundredth.
EXPONENTS = {"JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "ISK": 0, "KWD": 3, "BHD": 3, "TND": 3}
# Nothing more happens to these. A parcel may be lost or refunded for a while after it was sent; an
# order that nobody ships in half a year never will be.
CLOSED = frozenset({"canceled", "fully refunded"})
SHIPPED_OPEN, UNSHIPPED_OPEN = timedelta(days=30), timedelta(days=180)
STAMPS = {
    "created": ("created_timestamp", "create_timestamp"),
    "updated": ("updated_timestamp", "update_timestamp", "last_modified_timestamp"),
    "ledger": ("created_timestamp", "create_date"),
}

Row = Mapping[str, Any]
T = TypeVar("T")


class _BadRowError(Exception):
    """A row is malformed; never leaves this module."""


def unreadable(why: str) -> NoReturn:
    """Raise UnreadableError in one line."""
    raise UnreadableError(f"{PROVIDER}'s reply has {why}"[:250], provider=PROVIDER)


def read_receipts(body: bytes, *, sort_on: str, now: datetime) -> Page:
    """Read a page of receipts, sorted by when they were created or updated."""
    rows, total = _list(body)
    return _receipts(rows, total, sort_on=sort_on, now=now)


def read_receipt(body: bytes, *, now: datetime) -> Page:
    """Read one receipt that was requested by its id."""
    row = _object(body)
    if "receipt_id" not in row:
        unreadable(f"no receipt: {excerpt(body)}")
    return _receipts([row], None, sort_on="updated", now=now)


def read_listings(body: bytes) -> Page:
    """Read a page of listings of one state."""
    rows, total = _list(body)
    listings, bad = _sort_out(rows, "listings", "listing_id", _listing)
    records = Records(listings=tuple(listings.values()), unreadable=bad)
    return _page(rows, "listing_id", STAMPS["updated"], records, total)


def read_ledger(body: bytes) -> Page:
    """Read a page of entries of the ledger."""
    rows, total = _list(body)
    payments, bad = _sort_out(rows, "payments", "entry_id", _payment)
    records = Records(payments=tuple(payments.values()), unreadable=bad)
    return _page(rows, "entry_id", STAMPS["ledger"], records, total)


def read_self(body: bytes) -> tuple[str, str | None]:
    """Return the owner of the token, and that person's shop if there is one."""
    row = _object(body)
    try:
        return _id(row, "user_id"), _find_id(row, "shop_id")
    except _BadRowError as error:
        unreadable(f"no user: {error}")


def read_title(body: bytes) -> str:
    """Return the name of a shop."""
    return _text(_object(body), "shop_name", usual="")


def find_error(body: bytes) -> str:
    """Return the message of an error's body, as one plain line; empty if it is no JSON."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    texts = [document.get("error"), document.get("error_description")]
    return excerpt(
        " ".join(text for text in texts if isinstance(text, str)).encode(errors="replace")
    )


def _receipts(rows: Sequence[Any], total: int | None, *, sort_on: str, now: datetime) -> Page:
    orders, bad = _sort_out(rows, "orders", "receipt_id", lambda row: _order(row, now))
    customers: dict[str, Customer] = {}
    for row in rows:
        order = orders.get(_find_name(row, "receipt_id"))
        if order is None or order.customer_id is None:
            continue
        known = customers.get(order.customer_id)
        if known is None or known.modified_at is None or known.modified_at <= order.placed_at:
            customers[order.customer_id] = _customer(row, order)
    records = Records(
        orders=tuple(orders.values()), customers=tuple(customers.values()), unreadable=bad
    )
    return _page(rows, "receipt_id", STAMPS[sort_on], records, total)


def _order(row: Row, now: datetime) -> Order:
    status = _text(row, "status").lower()
    placed_at, is_shipped = _instant(row, STAMPS["created"]), _flag(row, "is_shipped")
    total, currency = _money(row, "grandtotal")
    taxes = [_find_sum(row, name, currency) for name in ("total_tax_cost", "total_vat_cost")]
    values = [tax for tax in taxes if tax is not None]
    open_for = SHIPPED_OPEN if is_shipped else UNSHIPPED_OPEN
    return Order(
        external_id=_id(row, "receipt_id"),
        number=_id(row, "receipt_id"),
        status=status,
        is_open=status not in CLOSED and now - placed_at < open_for,
        payment_status="paid" if _flag(row, "is_paid") else "unpaid",
        fulfillment_status="shipped" if is_shipped else "unshipped",
        currency=currency,
        total=total,
        subtotal=_find_sum(row, "subtotal", currency),
        shipping=_find_sum(row, "total_shipping_cost", currency),
        tax=sum(values, Decimal(0)) if values else None,
        discount=_find_sum(row, "discount_amt", currency),
        customer_id=_find_id(row, "buyer_user_id"),
        placed_at=placed_at,
        modified_at=_instant(row, STAMPS["updated"]),
        line_items=_distinct(_line_item(item) for item in _rows(row, "transactions")),
        shipments=_distinct(
            _shipment(item, place) for place, item in enumerate(_rows(row, "shipments"), 1)
        ),
        refunds=_refunds(row),
    )


def _line_item(row: Row) -> LineItem:
    price, currency = _money(row, "price")
    return LineItem(
        external_id=_id(row, "transaction_id"),
        quantity=_number(row, "quantity", 0, COUNT_MAX),
        price=price,
        currency=currency,
        sku=_text(row, "sku", usual=""),
        title=_text(row, "title", usual=""),
        listing_id=_find_id(row, "listing_id"),
    )


def _shipment(row: Row, place: int) -> Shipment:
    """Read a parcel; one that has no id yet is named by its place."""
    shipped_at = None
    if row.get("shipment_notification_timestamp") is not None:
        shipped_at = _instant(row, ("shipment_notification_timestamp",))
    return Shipment(
        external_id=_find_id(row, "receipt_shipping_id") or f"n{place}",
        status="shipped",
        carrier=_text(row, "carrier_name", usual=""),
        tracking=_text(row, "tracking_code", usual=""),
        shipped_at=shipped_at,
    )


def _refunds(row: Row) -> tuple[Refund, ...]:
    places: Counter[int] = Counter()
    refunds = []
    for item in _rows(row, "refunds"):
        second = _number(item, "created_timestamp", FIRST_S, LAST_S)
        places[second] += 1
        place = places[second]
        amount, currency = _money(item, "amount")
        refunds.append(
            Refund(
                external_id=str(second) if place == 1 else f"{second}-{place}",
                amount=amount,
                currency=currency,
                status=_text(item, "status", usual=""),
                reason=_text(item, "reason", usual=""),
                refunded_at=datetime.fromtimestamp(second, tz=UTC),
            )
        )
    return tuple(refunds)


def _customer(row: Row, order: Order) -> Customer:
    assert order.customer_id is not None
    texts = {"name": "name", "email": "buyer_email", "country": "country_iso"}
    return Customer(
        external_id=order.customer_id,
        modified_at=order.placed_at,
        **{name: _lenient(row, field) for name, field in texts.items()},
    )


def _listing(row: Row) -> ShopListing:
    price, currency = _money(row, "price") if row.get("price") is not None else (None, "")
    skus = row.get("skus")
    first = skus[0] if isinstance(skus, list) and skus else ""
    return ShopListing(
        external_id=_id(row, "listing_id"),
        state=_text(row, "state"),
        sku=_text({"sku": first}, "sku", usual=""),
        title=_text(row, "title", usual=""),
        price=price,
        currency=currency,
        quantity=_number(row, "quantity", 0, COUNT_MAX),
        modified_at=_instant(row, STAMPS["updated"]),
    )


def _payment(row: Row) -> Payment:
    currency = _currency(row, "currency")
    amount = _number(row, "amount", -AMOUNT_MAX, AMOUNT_MAX)
    is_order = row.get("reference_type") == "receipt"
    return Payment(
        external_id=_id(row, "entry_id"),
        kind=_text(row, "ledger_type", usual="") or _text(row, "description", usual="") or "entry",
        amount=Decimal(amount).scaleb(-EXPONENTS.get(currency, 2)),
        currency=currency,
        paid_at=_instant(row, STAMPS["ledger"]),
        order_id=_find_id(row, "reference_id") if is_order else None,
    )


# Pages.


def _object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body, parse_constant=str, parse_float=_float)
        json.dumps(document)  # what is nested too deep could not be written again
    except (ValueError, RecursionError):
        unreadable(f"no JSON: {excerpt(body) or 'an empty body'}")
    if not isinstance(document, dict):
        unreadable(f"no JSON object: {excerpt(body)}")
    return document


def _list(body: bytes) -> tuple[list[Any], int | None]:
    document = _object(body)
    rows, total = document.get("results"), document.get("count")
    if not isinstance(rows, list):
        unreadable(f"no results: {excerpt(body)}")
    is_count = isinstance(total, int) and not isinstance(total, bool) and total >= 0
    return rows, total if is_count else None


def _page(
    rows: Sequence[Any], id_name: str, stamps: Sequence[str], records: Records, total: int | None
) -> Page:
    """Return the page of these rows; a row without a stamp takes that of its neighbor."""
    values = [_find_instant(row, stamps) for row in rows]
    last = next((stamp for stamp in values if stamp is not None), None)
    filled = [last := stamp or last for stamp in values]
    return Page(
        records=records,
        ids=tuple(_find_name(row, id_name) for row in rows),
        stamps=tuple(stamp for stamp in filled if stamp is not None),
        total=total,
    )


def _sort_out(
    rows: Sequence[Any], kind: str, id_name: str, read: Callable[[Row], T]
) -> tuple[dict[str, T], tuple[Unreadable, ...]]:
    """Read every row by id, the last of two alike; set those aside that cannot be read."""
    good: dict[str, T] = {}
    bad: dict[str, Unreadable] = {}
    for row in rows:
        name = _find_name(row, id_name)
        good.pop(name, None)
        bad.pop(name, None)
        try:
            good[name] = read(row if isinstance(row, dict) else {})
        except _BadRowError as error:
            raw = _storable(row if isinstance(row, dict) else {"row": row})
            bad[name] = Unreadable(kind=kind, external_id=name, reason=str(error), raw=raw)
    return good, tuple(bad.values())


def _find_name(row: Any, id_name: str) -> str:  # noqa: ANN401 - JSON, of whatever shape
    """Return the id of a row, or another value that identifies it."""
    try:
        return _id(row, id_name) if isinstance(row, dict) else _print(row)
    except _BadRowError:
        return _print(row)


def _print(row: object) -> str:
    text = json.dumps(row, sort_keys=True).encode()
    return f"?{hashlib.sha256(text).hexdigest()[:16]}"


def _storable(value: Any) -> Any:  # noqa: ANN401 - JSON, of whatever shape
    """Return the row as a table can hold it: no NUL, nothing that is not UTF-8."""
    text = re.sub(r"[\ud800-\udfff]", "?", json.dumps(value, ensure_ascii=False))
    return json.loads(re.sub(r"(?<!\\)((?:\\\\)*)\\u0000", r"\1?", text))


def _float(text: str) -> float | str:
    """Return a number, or the text of one that is too large to be one."""
    return float(text) if isfinite(float(text)) else text


# Values.


def _bad(row: Row, name: str) -> NoReturn:
    shown = excerpt(json.dumps(row.get(name)).encode())[:60] if name in row else "missing"
    raise _BadRowError(f"{name} is {shown}")


def _number(row: Row, name: str, least: int, most: int) -> int:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        _bad(row, name)
    return value


def _id(row: Row, name: str) -> str:
    value = row.get(name)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    text = str(value) if is_whole or isinstance(value, str) else ""
    return text if re.fullmatch(r"[1-9][0-9]{0,19}", text) else _bad(row, name)


def _find_id(row: Row, name: str) -> str | None:
    """Return an id, or None where there is none, which Etsy also writes as 0."""
    return None if row.get(name) in (None, 0, "", "0") else _id(row, name)


def _text(row: Row, name: str, *, usual: str | None = None) -> str:
    value = row.get(name)
    if value is None and usual is not None:
        return usual
    if not isinstance(value, str) or (not value and usual is None) or not _is_storable(value):
        _bad(row, name)
    return value[:TEXT_CHARS_MAX]


def _lenient(row: Row, name: str) -> str:
    """Return a text that no order hangs on."""
    value = row.get(name)
    return value[:TEXT_CHARS_MAX] if isinstance(value, str) and _is_storable(value) else ""


def _is_storable(text: str) -> bool:
    return "\0" not in text and not re.search(r"[\ud800-\udfff]", text)


def _flag(row: Row, name: str) -> bool:
    value = row.get(name)
    return value if isinstance(value, bool) else _bad(row, name)


def _instant(row: Row, names: Sequence[str]) -> datetime:
    name = next((name for name in names if row.get(name) is not None), names[0])
    return datetime.fromtimestamp(_number(row, name, FIRST_S, LAST_S), tz=UTC)


def _find_instant(row: Any, names: Sequence[str]) -> datetime | None:  # noqa: ANN401
    try:
        return _instant(row, names) if isinstance(row, dict) else None
    except _BadRowError:
        return None


def _currency(row: Row, name: str) -> str:
    value = row.get(name)
    is_code = isinstance(value, str) and re.fullmatch(r"[A-Z]{3}", value)
    return value if is_code and isinstance(value, str) else _bad(row, name)


def _money(row: Row, name: str) -> tuple[Decimal, str]:
    """Return an exact amount and its currency."""
    money = row.get(name)
    if not isinstance(money, dict):
        _bad(row, name)
    amount = _number(money, "amount", -AMOUNT_MAX, AMOUNT_MAX)
    divisor = _number(money, "divisor", 1, 10**6)
    exact = Decimal(amount) / divisor
    if exact * divisor != amount:
        _bad(row, name)
    return exact, _currency(money, "currency_code")


def _find_sum(row: Row, name: str, currency: str) -> Decimal | None:
    """Return a part of the total, which must be in the same currency."""
    if row.get(name) is None:
        return None
    amount, own = _money(row, name)
    return amount if own == currency else _bad(row, name)


def _rows(row: Row, name: str) -> Sequence[Row]:
    rows = row.get(name)
    rows = [] if rows is None else rows
    if not isinstance(rows, list) or not all(isinstance(item, dict) for item in rows):
        _bad(row, name)
    return rows


def _distinct(parts: Any) -> Any:  # noqa: ANN401 - of either kind
    """Return the parts of an order, the last of two with one id."""
    return tuple({part.external_id: part for part in parts}.values())
