"""Read a price reply for each requested SKU; pure, and prepared for any bytes.

A reply that is malformed as a whole raises UnreadableError. A malformed line makes only its own SKU
faulty. Zero is how this supplier writes "no price". A line that can be read but not believed is
quoted with its doubts.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, NoReturn

from pydantic import PlainValidator

from headway.core.catalog.listings import DETAILS, Quote, Reply, Sku, SuppliedDetails
from headway.providers.boeing.doubts import (
    error_text,
    find_contradictions,
    read_currency,
)
from headway.providers.excerpt import excerpt
from headway.providers.reply_fields import (
    AMOUNT_MAX,
    ReplyModel,
    plain_line,
    read_price,
    read_quantity,
)
from headway.providers.reply_rows import reason_of, unreadable

PROVIDER = "boeing"
NAME_CHARS_MAX = 200
TITLE_CHARS_MAX = 255
UNIT_CHARS_MAX = 20
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


class BoeingStock(ReplyModel):
    """The stock of a part at a location."""

    location: Annotated[str, PlainValidator(_location)]
    available: Annotated[int, PlainValidator(read_quantity)]


class BoeingLine(ReplyModel):
    """A line of the reply under our own names; texts of another type are empty."""

    list_price: Any = None
    net_price: Any = None
    line_currency: Any = None
    quantity: Any = None
    in_stock: Any = None
    locations: list[BoeingStock] | None = None
    name: Any = None
    description: Any = None
    vendor: Any = None
    unit: Any = None
    minimum: Any = None
    weight: Any = None
    weight_unit: Any = None
    origin: Any = None
    tariff_code: Any = None
    condition: Any = None
    image: Any = None
    error: Any = None
    status: Any = None
    superseded_by: Any = None
    part_number: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyForm:
    """How replies are written: the names of fields, and the currency of a reply that names none.

    Several names of a field are separated by `|`; the first that a line has counts.
    """

    fields: Mapping[str, str]
    currency: str
    _names: Mapping[str, Sequence[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Split the names once."""
        names = {name: text.split("|") for name, text in self.fields.items()}
        object.__setattr__(self, "_names", names)

    @property
    def known(self) -> frozenset[str]:
        """Return every name that a line may have and we read."""
        return frozenset(name for names in self._names.values() for name in names)

    def find(self, row: object, name: str) -> Any:  # noqa: ANN401 - JSON
        """Return the value of a field; None if the row has none."""
        if not isinstance(row, dict):
            return None
        for key in self._names[name]:
            value = row.get(key)
            if value is not None:
                return value
        return None

    def line(self, row: Line) -> BoeingLine:
        """Read a line; raises ValueError."""
        places = self.find(row, "locations")
        if isinstance(places, list):
            names = ("location", "available")
            places = [{name: self.find(place, name) for name in names} for place in places]
        values = {name: self.find(row, name) for name in BoeingLine.model_fields}
        return BoeingLine.model_validate({**values, "locations": places})


def parse_reply(body: bytes, skus: Sequence[Sku], form: ReplyForm) -> Reply:
    """Sort the requested SKUs into quoted, missing, faulty and unclear; raises UnreadableError."""
    document = _document(body)
    code, lines = form.find(document, "currency") or form.currency, form.find(document, "lines")
    currency = read_currency(code)
    if currency is None:
        _unreadable("no currency", body)
    if not isinstance(lines, list):
        _unreadable(f"no list of {form.fields['lines']}", body)
    # A reply that names no currency leaves it to its lines.
    named = currency if form.find(document, "currency") else None
    lines_by_sku, has_nameless = _match(lines, skus, form)
    quotes: dict[Sku, Quote] = {}
    faulty: dict[Sku, str] = {}
    missing: set[Sku] = set()
    unclear: dict[Sku, str] = {}
    for sku in skus:
        if sku in lines_by_sku:
            try:
                rows = [form.line(row) for row in lines_by_sku[sku]]
                quotes[sku] = _one_quote(sku, rows, named, currency)
            except ValueError as error:
                faulty[sku] = reason_of(error)
        elif has_nameless:  # it may well have been this SKU's line, so it is not missing
            unclear[sku] = "the reply holds a line without a part number"
        else:
            missing.add(sku)
    raw = _RawLines({sku: lines_by_sku[sku][0] for sku in lines_by_sku})
    return Reply(
        quotes=quotes,
        missing=frozenset(missing),
        faulty=faulty,
        unclear=unclear,
        raw=raw,
        known_fields=form.known,
    )


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


def _match(
    lines: Iterable[Any], skus: Sequence[Sku], form: ReplyForm
) -> tuple[dict[Sku, list[Line]], bool]:
    """Find each SKU's lines: by the part number first, by the product code if that finds none."""
    keys = {sku: sku.strip().casefold() for sku in skus}
    names = set(keys.values())
    by_part: dict[str, list[Line]] = defaultdict(list)
    by_code: dict[str, list[Line]] = defaultdict(list)
    has_nameless = False
    for line in lines:
        part = _name(form.find(line, "part_number"))
        code = _name(form.find(line, "product_code"))
        has_nameless |= not part and not code
        if part in names:
            by_part[part].append(line)
        elif code in names:
            by_code[code].append(line)
    lines_by_sku = {sku: by_part[key] or by_code[key] for sku, key in keys.items()}
    return {sku: held for sku, held in lines_by_sku.items() if held}, has_nameless


def _name(value: object) -> str:
    return value.strip().casefold() if isinstance(value, str) else ""


def _one_quote(sku: Sku, rows: Sequence[BoeingLine], named: str | None, currency: str) -> Quote:
    first, *others = [_quote(sku, row, named, currency) for row in rows]
    if any(other != first for other in others):
        raise ValueError("two different lines")
    return first


def _quote(sku: Sku, row: BoeingLine, named: str | None, currency: str) -> Quote:
    quantities = _quantities(row)
    list_price, net_price = (_price(value) for value in (row.list_price, row.net_price))
    if not list_price and not net_price and (message := error_text(row.error)):
        raise ValueError(f"the supplier says: {message}")
    minimum = _minimum(row.minimum)
    return Quote(
        sku=sku,
        list_price=list_price,
        net_price=net_price,
        currency=read_currency(row.line_currency) or currency,
        quantities=quantities,
        unit=plain_line(row.unit, UNIT_CHARS_MAX).upper(),
        minimum=minimum or 1,
        doubts=tuple(find_contradictions(sku, row, quantities, named)),
        name=plain_line(row.name, TITLE_CHARS_MAX),
        description=plain_line(row.description, RAW_CHARS_MAX),
        vendor=plain_line(row.vendor, TITLE_CHARS_MAX),
        details=SuppliedDetails(**{name: _detail(getattr(row, name)) for name in DETAILS}),
    )


def _detail(value: object) -> str:
    """Return a detail of a product as text, which is checked when a product is made from it."""
    if value is None or isinstance(value, str):
        return plain_line(value, RAW_CHARS_MAX)
    is_plain = isinstance(value, Decimal | bool)
    return plain_line(str(value), NAME_CHARS_MAX) if is_plain else "(not a text or a number)"


def _price(value: object) -> Decimal | None:
    """Return a price; one that cannot be meant is none, and its quote is held."""
    try:
        return read_price(value)
    except ValueError:
        return None


def _minimum(value: object) -> int:
    """Return the least number of units that is sold; anything else than a number is no minimum."""
    try:
        return read_quantity(value)
    except ValueError:
        return 1


def _quantities(row: BoeingLine) -> dict[str, int]:
    quantities: dict[str, int] = {}
    for place in row.locations or ():
        quantities[place.location] = quantities.get(place.location, 0) + place.available
    if sum(quantities.values()) > AMOUNT_MAX:
        raise ValueError("absurd quantity")
    return dict(sorted(quantities.items()))


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
