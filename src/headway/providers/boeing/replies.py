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
from typing import Any, NoReturn

from headway.core.catalog.listings import Quote, Reply, Sku
from headway.errors import UnreadableError
from headway.providers.excerpt import excerpt

PROVIDER = "boeing"
NUMBER = re.compile(r"\s*([+-]?[0-9]{1,20}(?:\.[0-9]{0,20})?)\s*")
CURRENCY = re.compile(r"\s*([A-Za-z]{3})\s*")
AMOUNT_MAX = 10**9
PRICE_STEP = Decimal("0.0001")
NAME_CHARS_MAX = 200
TITLE_CHARS_MAX = 255
# What is kept of a line in the supplier's own words is bounded, whatever it sends.
RAW_CHARS_MAX = 5000
RAW_ITEMS_MAX = 100
RAW_DEPTH_MAX = 4

Line = Mapping[str, Any]


class _FaultyLineError(Exception):
    """The line is not plausible; the text gives the reason."""


def parse_reply(body: bytes, skus: Sequence[Sku]) -> Reply:
    """Sort the requested SKUs into quoted, missing and faulty; raises UnreadableError."""
    document = _document(body)
    currency = _currency(document.get("currency"))
    if currency is None:
        _unreadable("no currency", body)
    lines = document.get("lineItems")
    if not isinstance(lines, list):
        _unreadable("no list of lineItems", body)
    lines_by_sku, has_nameless = _match(lines, skus)
    quotes: dict[Sku, Quote] = {}
    faulty: dict[Sku, str] = {}
    missing: set[Sku] = set()
    for sku in skus:
        if sku in lines_by_sku:
            try:
                quotes[sku] = _one_quote(sku, lines_by_sku[sku], currency)
            except _FaultyLineError as fault:
                faulty[sku] = str(fault)
        elif has_nameless:  # it may well have been this SKU's line, so it is not missing
            faulty[sku] = "the reply holds a line without a part number"
        else:
            missing.add(sku)
    raw = _RawLines({sku: lines_by_sku[sku][0] for sku in quotes})
    return Reply(quotes=quotes, missing=frozenset(missing), faulty=faulty, raw=raw)


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


def _currency(value: object) -> str | None:
    match = CURRENCY.fullmatch(value) if isinstance(value, str) else None
    return match.group(1).upper() if match else None


def _unreadable(why: str, body: bytes) -> NoReturn:
    message = excerpt(body) or "an empty body"
    raise UnreadableError(f"{PROVIDER}'s reply has {why}: {message}"[:250], provider=PROVIDER)


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
        raise _FaultyLineError("two different lines")
    return first


def _quote(sku: Sku, line: Line, currency: str) -> Quote:
    if error := line.get("error"):
        message = excerpt(str(error)[:1000].encode(errors="replace"))
        raise _FaultyLineError(f"the supplier says: {message}")
    return Quote(
        sku=sku,
        list_price=_price(line, "listPrice"),
        net_price=_price(line, "netPrice"),
        currency=currency,
        quantities=_quantities(line),
        name=_text(line.get("name"), TITLE_CHARS_MAX),
        description=_text(line.get("description"), RAW_CHARS_MAX),
        vendor=_text(line.get("supplierName"), TITLE_CHARS_MAX),
    )


def _price(line: Line, key: str) -> Decimal | None:
    value = line.get(key)
    if value is None or value == "":
        return None
    price = _number(value, key)
    if price == 0:
        return None
    if not PRICE_STEP <= price <= AMOUNT_MAX:
        raise _FaultyLineError(f"{key} is negative or absurd")
    # One price, one spelling: 1E+3, 1000.00 and the dust of a float all become plain digits.
    return Decimal(format(price.quantize(PRICE_STEP).normalize(), "f"))


def _quantities(line: Line) -> dict[str, int]:
    places = line.get("locationAvailabilities")
    if places is None or places == []:
        # An empty list must not contradict the rest of the line; a missing one must agree with it.
        claims = _stock_claims(line)
        if True in claims or (places is None and not claims):
            raise _FaultyLineError("stock without a location")
        return {}
    if not isinstance(places, list):
        raise _FaultyLineError("locationAvailabilities is not a list")
    quantities: dict[str, int] = {}
    for place in places:
        name = _place_name(place)
        quantities[name] = quantities.get(name, 0) + _availability(place)
    if sum(quantities.values()) > AMOUNT_MAX:
        raise _FaultyLineError("absurd quantity")
    return dict(sorted(quantities.items()))


def _place_name(place: object) -> str:
    name = place.get("location") if isinstance(place, dict) else None
    # Unprintable characters would not survive storage.
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise _FaultyLineError("a location without a name")
    if len(name) > NAME_CHARS_MAX:
        raise _FaultyLineError("a location with an absurd name")
    return name.strip()


def _availability(place: Line) -> int:
    quantity = _number(place.get("availQuantity"), "availQuantity")
    if quantity < 0 or quantity > AMOUNT_MAX or quantity != int(quantity):
        raise _FaultyLineError("availQuantity is not a believable whole number")
    return int(quantity)


def _stock_claims(line: Line) -> set[bool]:
    """Return the stock claims of the line outside its locations: some, none, both or nothing."""
    claims = {line["inStock"]} if isinstance(line.get("inStock"), bool) else set()
    with contextlib.suppress(_FaultyLineError):
        claims.add(_number(line.get("quantity"), "quantity") > 0)
    return claims


def _number(value: object, key: str) -> Decimal:
    if isinstance(value, str) and (match := NUMBER.fullmatch(value)):
        return Decimal(match.group(1))
    if isinstance(value, Decimal) and value.is_finite():
        return value
    raise _FaultyLineError(f"{key} is not a number")


def _text(value: object, chars_max: int) -> str:
    """Return the printable characters of a text, as one line; empty if it is no text."""
    if not isinstance(value, str):
        return ""
    plain = value[: 2 * chars_max]
    if not plain.isprintable():
        plain = "".join(item if item.isprintable() else " " for item in plain)
    return " ".join(plain.split())[:chars_max].strip()


def _raw_fields(fields: Mapping[str, Any], depth: int) -> dict[str, Any]:
    items = list(fields.items())[:RAW_ITEMS_MAX]
    return {_text(key, NAME_CHARS_MAX): _raw(value, depth - 1) for key, value in items}


def _raw(value: object, depth: int) -> object:
    """Return a value as it may be stored: numbers as text, digit by digit, nothing endless."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Decimal):
        return str(value)[:NAME_CHARS_MAX]
    if isinstance(value, str):
        return _text(value, RAW_CHARS_MAX)
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
