"""What makes a line of a reply doubtful: claims that contradict each other, errors, other parts."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from headway.core.catalog.listings import BelievedStock, Doubt, Sku
from headway.providers.excerpt import excerpt
from headway.providers.reply_fields import plain_line, read_number, read_price

CURRENCY = re.compile(r"\s*([A-Za-z]{3})\s*")
FAILED = re.compile(r"\s*(error|err|fail|failed|failure|invalid|rejected)\b.*", re.IGNORECASE)
VALUE_CHARS_MAX = 60


class QuotedLine(Protocol):
    """A line as it was read; values of any type."""

    list_price: Any
    net_price: Any
    line_currency: Any
    quantity: Any
    in_stock: Any
    locations: Any
    error: Any
    status: Any
    superseded_by: Any
    part_number: Any


def find_contradictions(
    sku: Sku, line: QuotedLine, quantities: Mapping[str, int], currency: str | None
) -> Iterator[Doubt]:
    """Yield every reason not to believe a line; `currency` is the reply's, if it names one."""
    yield from _prices(line)
    yield from _currencies(line, currency)
    yield from _errors(line)
    yield from _superseded(sku, line)
    yield from _stock(line, quantities)


def read_currency(value: object) -> str | None:
    """Return a currency code; None if the value is none."""
    match = CURRENCY.fullmatch(value) if isinstance(value, str) else None
    return None if match is None else match.group(1).upper()


def error_text(value: object) -> str:
    """Return the error that a line reports; empty if it reports none."""
    return excerpt(str(value)[:1000].encode(errors="replace")) if value else ""


def _stock_claims(line: QuotedLine) -> set[bool]:
    """Return the stock claims of the line outside its locations: some, none, both or nothing."""
    claims = {line.in_stock} if isinstance(line.in_stock, bool) else set()
    with contextlib.suppress(ValueError):
        claims.add(read_number(line.quantity) > 0)
    return claims


def _prices(line: QuotedLine) -> Iterator[Doubt]:
    for label, value in (("list", line.list_price), ("net", line.net_price)):
        try:
            read_price(value)
        except ValueError:
            shown = error_text(str(value))[:VALUE_CHARS_MAX]
            reason = f"the {label} price is not usable: {shown}"
            yield Doubt(kind=f"{label} price", reason=reason, stock=BelievedStock.AS_READ)


def _currencies(line: QuotedLine, currency: str | None) -> Iterator[Doubt]:
    own = line.line_currency
    if own in (None, "") or currency is None or read_currency(own) == currency:
        return
    shown = error_text(str(own))[:VALUE_CHARS_MAX]
    reason = f"the line is in {shown}, the reply in {currency}"
    yield Doubt(kind=f"currency {shown}", reason=reason, stock=BelievedStock.AS_READ)


def _errors(line: QuotedLine) -> Iterator[Doubt]:
    message = error_text(line.error)
    if not message and isinstance(line.status, str) and FAILED.fullmatch(line.status):
        message = f"status {plain_line(line.status, VALUE_CHARS_MAX)}"
    if message:
        reason = f"the supplier reports an error beside the price: {message}"
        yield Doubt(kind="error", reason=reason, stock=BelievedStock.KEPT)


def _superseded(sku: Sku, line: QuotedLine) -> Iterator[Doubt]:
    """Doubt a line that names a successor, or that is about another part than was asked for."""
    successor = plain_line(line.superseded_by, VALUE_CHARS_MAX)
    quoted = plain_line(line.part_number, VALUE_CHARS_MAX)
    names = {sku.strip().casefold(), _base(sku)}
    if successor and successor.casefold() not in names:
        yield Doubt(kind=f"superseded {successor}", reason=f"superseded by {successor}")
    elif quoted and _base(quoted) != _base(sku):
        reason = f"the supplier quotes another part, {quoted}"
        yield Doubt(kind=f"superseded {quoted}", reason=reason)


def _stock(line: QuotedLine, quantities: Mapping[str, int]) -> Iterator[Doubt]:
    """Doubt a flag that disagrees with the locations; the quantity speaks where there is none.

    Beside a flag, a quantity of zero may be the one that was asked for.
    """
    claims = _stock_claims(line)
    if reason := _unlocated(line, claims):
        yield Doubt(kind="stock", reason=reason, stock=BelievedStock.KEPT)
    has_stock = any(quantities.values())
    flag = line.in_stock if isinstance(line.in_stock, bool) else next(iter(claims), has_stock)
    if not quantities or flag == has_stock:
        return
    stocked = next((place for place in quantities if quantities[place]), "")
    reason = (
        f"not in stock by the line, yet {stocked} has {quantities[stocked]}"
        if stocked
        else "in stock by the line, yet no location has any"
    )
    believed = BelievedStock.NONE if claims == {False} else BelievedStock.FALLEN
    yield Doubt(kind="stock", reason=reason, stock=believed)


def _unlocated(line: QuotedLine, claims: set[bool]) -> str:
    """Return why no stock may be believed of a line without locations; empty if none is claimed."""
    if line.locations:
        return ""
    if True in claims:
        return "in stock by the line, yet no location is named"
    return "" if claims or line.locations is not None else "the line says nothing about stock"


def _base(part_number: str) -> str:
    """Return a part number without its variant suffix, for comparison."""
    name = part_number.strip().casefold()
    return name.rpartition("=")[0].strip() or name
