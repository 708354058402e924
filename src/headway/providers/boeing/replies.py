"""Read a price reply for each requested SKU; pure, and prepared for any bytes.

A reply that is malformed as a whole raises UnreadableError. A malformed line makes only its own SKU
faulty. Zero is how this supplier writes "no price".
"""

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, NoReturn

from pydantic import PlainValidator

from headway.core.catalog.listings import Quote, Reply, Sku
from headway.providers.excerpt import excerpt
from headway.providers.reply_fields import (
    AMOUNT_MAX,
    CamelModel,
    plain_line,
    read_number,
    read_price,
    read_quantity,
)
from headway.providers.reply_rows import reason_of, unreadable

PROVIDER = "boeing"
CURRENCY = re.compile(r"\s*([A-Za-z]{3})\s*")
NAME_CHARS_MAX = 200
TITLE_CHARS_MAX = 255
# What is kept of a line in the supplier's own words is bounded, whatever it sends.
RAW_CHARS_MAX = 5000
RAW_ITEMS_MAX = 100
RAW_DEPTH_MAX = 4

Line = Mapping[str, Any]


def _location(value: object) -> str:
    # Unprintable characters would not survive storage.
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError("no name")
    if len(value) > NAME_CHARS_MAX:
        raise ValueError("too long")
    return value.strip()


class BoeingStock(CamelModel):
    """The stock of a part at a location."""

    location: Annotated[str, PlainValidator(_location)]
    avail_quantity: Annotated[int, PlainValidator(read_quantity)]


class BoeingLine(CamelModel):
    """A line of the reply; texts of another type are empty."""

    list_price: Annotated[Decimal | None, PlainValidator(read_price)] = None
    net_price: Annotated[Decimal | None, PlainValidator(read_price)] = None
    quantity: Any = None
    in_stock: Any = None
    location_availabilities: list[BoeingStock] | None = None
    name: Any = None
    description: Any = None
    supplier_name: Any = None


def parse_reply(body: bytes, skus: Sequence[Sku]) -> Reply:
    """Sort the requested SKUs into quoted, missing, faulty and unclear; raises UnreadableError."""
    document = _document(body)
    code, lines = document.get("currency"), document.get("lineItems")
    match = CURRENCY.fullmatch(code) if isinstance(code, str) else None
    if match is None:
        _unreadable("no currency", body)
    if not isinstance(lines, list):
        _unreadable("no list of lineItems", body)
    currency = match.group(1).upper()
    lines_by_sku, has_nameless = _match(lines, skus)
    quotes: dict[Sku, Quote] = {}
    faulty: dict[Sku, str] = {}
    missing: set[Sku] = set()
    unclear: dict[Sku, str] = {}
    for sku in skus:
        if sku in lines_by_sku:
            try:
                quotes[sku] = _one_quote(sku, lines_by_sku[sku], currency)
            except ValueError as error:
                faulty[sku] = reason_of(error)
        elif has_nameless:  # it may well have been this SKU's line, so it is not missing
            unclear[sku] = "the reply holds a line without a part number"
        else:
            missing.add(sku)
    raw = _RawLines({sku: lines_by_sku[sku][0] for sku in quotes})
    return Reply(quotes=quotes, missing=frozenset(missing), faulty=faulty, unclear=unclear, raw=raw)


class _RawLines(Mapping[Sku, Mapping[str, Any]]):
    """The supplier's original lines, prepared for storage when one is requested.

    Only publishing requests them; preparing every line would take longer than reading it.
    """

    def __init__(self, lines: Mapping[Sku, Line]) -> None:
        self._lines = lines

    def __getitem__(self, sku: Sku) -> Mapping[str, Any]:
        return _raw_fields(self._lines[sku], RAW_DEPTH_MAX)

    def __iter__(self) -> Iterator[Sku]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def _document(body: bytes) -> Line:
    try:
        document = json.loads(
            body, parse_float=_decimal, parse_int=_decimal, parse_constant=_decimal
        )
    except (ValueError, RecursionError):
        _unreadable("not JSON", body)
    if not isinstance(document, dict):
        _unreadable("not a JSON object", body)
    return document


def _unreadable(reason: str, body: bytes) -> NoReturn:
    unreadable(PROVIDER, f"{reason}: {excerpt(body) or 'an empty body'}")


def _match(lines: Iterable[Any], skus: Sequence[Sku]) -> tuple[dict[Sku, list[Line]], bool]:
    """Find each SKU's lines: by the part number first, by the product code if that finds none."""
    keys = {sku: sku.strip().casefold() for sku in skus}
    names = set(keys.values())
    by_part: dict[str, list[Line]] = defaultdict(list)
    by_code: dict[str, list[Line]] = defaultdict(list)
    has_nameless = False
    for line in lines:
        part = _name(line, "aviallPartNumber")
        code = _name(line, "productCode")
        has_nameless |= not part and not code
        if part in names:
            by_part[part].append(line)
        elif code in names:
            by_code[code].append(line)
    lines_by_sku = {sku: by_part[key] or by_code[key] for sku, key in keys.items()}
    return {sku: held for sku, held in lines_by_sku.items() if held}, has_nameless


def _name(line: object, key: str) -> str:
    value = line.get(key) if isinstance(line, dict) else None
    return value.strip().casefold() if isinstance(value, str) else ""


def _one_quote(sku: Sku, lines: Sequence[Line], currency: str) -> Quote:
    first, *others = [_quote(sku, line, currency) for line in lines]
    if any(other != first for other in others):
        raise ValueError("two different lines")
    return first


def _quote(sku: Sku, line: Line, currency: str) -> Quote:
    if error := line.get("error"):
        message = excerpt(str(error)[:1000].encode(errors="replace"))
        raise ValueError(f"the supplier says: {message}")
    row = BoeingLine.model_validate(line)
    return Quote(
        sku=sku,
        list_price=row.list_price,
        net_price=row.net_price,
        currency=currency,
        quantities=_quantities(row),
        name=plain_line(row.name, TITLE_CHARS_MAX),
        description=plain_line(row.description, RAW_CHARS_MAX),
        vendor=plain_line(row.supplier_name, TITLE_CHARS_MAX),
    )


def _quantities(row: BoeingLine) -> dict[str, int]:
    places = row.location_availabilities
    if not places:
        # An empty list must not contradict the rest of the line; a missing one must agree with it.
        claims = _stock_claims(row)
        if True in claims or (places is None and not claims):
            raise ValueError("stock without a location")
        return {}
    quantities: dict[str, int] = {}
    for place in places:
        quantities[place.location] = quantities.get(place.location, 0) + place.avail_quantity
    if sum(quantities.values()) > AMOUNT_MAX:
        raise ValueError("absurd quantity")
    return dict(sorted(quantities.items()))


def _stock_claims(row: BoeingLine) -> set[bool]:
    """Return the stock claims of the line outside its locations: some, none, both or nothing."""
    claims = {row.in_stock} if isinstance(row.in_stock, bool) else set()
    with contextlib.suppress(ValueError):
        claims.add(read_number(row.quantity) > 0)
    return claims


def _raw_fields(fields: Mapping[str, Any], depth: int) -> dict[str, Any]:
    items = list(fields.items())[:RAW_ITEMS_MAX]
    return {plain_line(key, NAME_CHARS_MAX): _raw(value, depth - 1) for key, value in items}


def _raw(value: object, depth: int) -> object:
    """Return a value as it may be stored: numbers as text, digit by digit, nothing endless."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Decimal):
        return str(value)[:NAME_CHARS_MAX]
    if isinstance(value, str):
        return plain_line(value, RAW_CHARS_MAX)
    if depth == 0:
        return "…"
    if isinstance(value, dict):
        return _raw_fields(value, depth)
    assert isinstance(value, list), "JSON holds nothing else"
    return [_raw(item, depth - 1) for item in value[:RAW_ITEMS_MAX]]


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond all bounds
        return Decimal("NaN")
