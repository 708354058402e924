"""What may come in: part numbers, sellers, shop SKUs and ids, the rows of an import, their fates.

Decides what a name may be and how a shop calls a part; whether it is already there is the store's.
"""

import csv
import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, Literal

from headway.core.catalog.channels import NONE, read_names
from headway.core.catalog.listings import MAIN, SellerId, Sku, SupplierName
from headway.core.catalog.shop_export import COLUMNS as EXPORTED
from headway.core.catalog.shop_export import ShopExport
from headway.core.catalog.storefront import Gid
from headway.core.reasons import format_time
from headway.core.timetable.next_call import SupplierQueue
from headway.errors import InvalidError

CHARS_MAX = 255
SUPPLIER_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
SLUG_CHARS_MAX = 60
HASH_CHARS = 12
BOM = b"\xef\xbb\xbf"
IDS = {
    "shopify_product_id": "Product",
    "shopify_variant_id": "ProductVariant",
    "shopify_inventory_item_id": "InventoryItem",
}
TIERS = {"free": 1, "starter": 2, "growth": 3, "pro": 4}
WORTH = ("sales", "margin", "tier")
COLUMNS = ("sku", "seller", "shop_sku", "title", *IDS, "family", "weight", *WORTH, "channels")
# What we write beside a refused row, so that the file of refused rows can be fixed and imported.
NOTES = ("line", "reason")

DELIMITERS = ",;\t"
# A product's description is one cell.
CELL_MAX = 1 << 24

# A weight compares parts. Within these bounds no arithmetic over it runs out of numbers.
WEIGHT_MIN, WEIGHT_MAX = 1e-6, 1e6
# A part without sales may sell tomorrow: it counts as one sale in 100 days, or 0.01 earned.
WORTH_MIN = 0.01
# How a spreadsheet writes a part number such as 123E3: the digits of it are lost.
SPOILT = re.compile(r"[0-9]([.,][0-9]+)?E[+-][0-9]{2,3}")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

ShopSkuForm = Literal["same", "base"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRow:
    """One usable row of an import; what the file does not give is None.

    `family` names the parts that change together. `weight` is what a minute of staleness costs,
    compared with other parts; `sales` (units a day), `margin` (money a unit) and `tier` can be
    given instead. `channels` are the sales channels on which Headway keeps it visible.
    """

    line: int
    sku: Sku
    seller: SellerId
    shop_sku: str | None = None
    title: str | None = None
    shopify_product_id: Gid | None = None
    shopify_variant_id: Gid | None = None
    shopify_inventory_item_id: Gid | None = None
    family: str | None = None
    weight: float | None = None
    sales: float | None = None
    margin: float | None = None
    tier: str | None = None
    channels: str | None = None

    @property
    def value_weight(self) -> float | None:
        """The weight that the file gives, or that follows from what it gives; None if neither."""
        if self.weight is not None:
            return max(WEIGHT_MIN, self.weight)
        if self.sales is None and self.margin is None and self.tier is None:
            return None
        return weigh(sales=self.sales, margin=self.margin, tier=self.tier)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    """One row that is kept out, and why; the reason names the field."""

    line: int
    """The line in the file."""
    reason: str
    """Why it was refused; it names the column. Example: `price: not a number`"""
    cells: Mapping[str, str]
    """The row, by column. Example: `{"sku": "WF338109=K3", "price": "cheap"}`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """Result of an import."""

    added: int
    """Rows that were added."""
    updated: int
    """Rows that changed something."""
    unchanged: int
    """Rows that changed nothing."""
    refused: Sequence[RefusedRow]
    """Rows that were refused."""
    sellers: Sequence[SellerId] = ()
    """Sellers of the rows that were taken. Example: `["acme"]`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedPart:
    """A part on its way into a shop: requested, normalized, created and then published there.

    Or it is blocked, failed or refused. Published is what the shop shows on its sales channels.
    `left_out` says which details of the supplier a new product does without, and why.
    While it is requested, `place` is its place among the parts in the next calls, or `due_at` is
    when it is tried again after a failure.
    """

    sku: Sku
    shop_sku: str
    status: str
    reason: str = ""
    shopify_product_id: str | None = None
    place: int | None = None
    due_at: datetime | None = None
    left_out: Sequence[str] = ()


def part_key(sku: str) -> str:
    """Return what part numbers of one part have in common: all but case and white space."""
    return "".join(sku.split()).upper()


def sku_of(text: str) -> Sku:
    """Return a supplier's part number, stripped; raises InvalidError that shows it."""
    return Sku(_name(text, "part number"))


def supplier_named(text: str) -> SupplierName:
    """Return a name that a supplier may have; raises InvalidError."""
    if not SUPPLIER_NAME.fullmatch(text) or text == MAIN:
        raise InvalidError(
            f"a supplier's name is 1 to 40 small letters, digits and -, a letter first, and not"
            f" {MAIN}, which is the one of the settings"
        )
    return SupplierName(text)


def seller_of(text: str) -> SellerId:
    """Return a seller's id, stripped; raises InvalidError that shows it."""
    return SellerId(_name(text, "seller"))


def shop_sku(sku: Sku, form: ShopSkuForm) -> str:
    """Return the shop's SKU of a part: the supplier's, or that without its `=suffix`."""
    base = sku.rpartition("=")[0].strip() if form == "base" else ""
    return base or sku


def weigh(*, sales: float | None, margin: float | None, tier: str | None) -> float:
    """Multiply what is known of a part's worth to a weight; what is not known counts as 1."""
    known = (sales, margin, None if tier is None else TIERS[tier])
    weight = math.prod(max(WORTH_MIN, factor) for factor in known if factor is not None)
    return min(weight, WEIGHT_MAX)


def handle_of(sku: str) -> str:
    """Return the handle of a shop's SKU: readable, safe in an address, and no other SKU's."""
    slug = re.sub(r"[^a-z0-9]+", "-", sku.lower())[:SLUG_CHARS_MAX].strip("-")
    mark = hashlib.sha256(sku.encode()).hexdigest()[:HASH_CHARS]
    return f"{slug}-{mark}" if slug else mark


def gid_of(text: str, kind: str) -> Gid:
    """Read `gid://shopify/Product/123`, or its plain number; raises InvalidError."""
    match = re.fullmatch(rf"(?:gid://shopify/{kind}/)?([1-9][0-9]{{0,19}})", text.strip())
    if match is None:
        raise InvalidError(f"{_shown(text)} is neither gid://shopify/{kind}/123 nor 123")
    return Gid(f"gid://shopify/{kind}/{match.group(1)}")


def text_lines(lines: Iterable[bytes]) -> Iterator[str]:
    """Read UTF-8, with or without a mark at its start; raises InvalidError that names the line."""
    for number, line in enumerate(lines, start=1):
        try:
            yield (line.removeprefix(BOM) if number == 1 else line).decode()
        except UnicodeDecodeError:
            raise InvalidError(f"line {number} is not UTF-8; save the file as UTF-8") from None


def read_rows(
    lines: Iterable[bytes], *, only: SellerId | None = None, otherwise: SellerId | None = None
) -> Iterator[ImportRow | RefusedRow]:
    """Read the rows of an import; raises InvalidError for a file that is unusable as a whole.

    `only` refuses the rows of any other seller; `otherwise` is the seller of rows that name none.
    """
    records = _records(text_lines(lines))
    first = next(records, (1, []))[1]
    export = None if isinstance(first, str) else ShopExport.of(first)
    header = list(EXPORTED) if export is not None else _header(first)
    if "seller" not in header and otherwise is None:
        raise InvalidError(
            "seller: whose parts are these? name the seller (--seller), or give a column seller"
        )
    for line, cells in records:
        if isinstance(cells, str):
            yield RefusedRow(line=line, reason=cells, cells={})
        elif any(cell.strip() for cell in cells):
            try:
                row = cells if export is None else export.row(cells)
            except InvalidError as error:
                yield RefusedRow(line=line, reason=str(error), cells={})
                continue
            if row is not None:
                yield _read(line, header, row, only=only, otherwise=otherwise)


def read_at(part: ImportedPart, queue: SupplierQueue, now: datetime) -> datetime | None:
    """Estimate when a requested part is read, at the earliest; None if it is not waiting."""
    if part.place is None:
        return part.due_at
    return queue.open_at(now) + (part.place - 1) // queue.rule.seats * queue.pace


def intake_message(part: ImportedPart, expected_at: datetime | None, now: datetime) -> str:
    """Return a short text about the state of a requested part, or what it waits for."""
    words = [part.reason] if part.reason else []
    if part.status == "published":
        words = [part.shopify_product_id or ""]
    elif part.status == "normalized":
        words.insert(0, "waiting to be created in the shop")
    elif part.status == "created" and not part.reason:
        words = ["in the shop; waiting to be published on its sales channels"]
    if part.place is not None:
        words.append(f"number {part.place:,} in the queue")
    if expected_at is not None:
        words.append(f"read at about {format_time(expected_at, now)}")
    if part.left_out and part.status in {"normalized", "created", "published"}:
        words.append(f"left out: {', '.join(part.left_out)}")
    return "; ".join(words)


def _name(text: str, what: str) -> str:
    name = text.strip()
    if not name:
        raise InvalidError(f"a {what} is empty")
    if len(name) > CHARS_MAX:
        raise InvalidError(
            f"the {what} {_shown(name)} has {len(name)} characters; at most {CHARS_MAX} are allowed"
        )
    if not name.isprintable():
        raise InvalidError(f"the {what} {_shown(name)} holds a character that cannot be printed")
    return name


def _title(text: str) -> str:
    title = " ".join(text.split())
    if len(title) > CHARS_MAX:
        raise InvalidError(f"has {len(title)} characters; at most {CHARS_MAX} are allowed")
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in title):
        raise InvalidError("holds a control character")
    return title


def _number(text: str, *, is_above_0: bool = False) -> float:
    # float() also accepts text that is not meant as a number: nan, 1_000, non-ASCII digits.
    number = float(text) if NUMBER.fullmatch(text) else math.nan
    if not 0 <= number <= WEIGHT_MAX or (is_above_0 and number == 0):
        bounds = "above 0 and up" if is_above_0 else "from 0"
        raise InvalidError(
            f"{_shown(text)} is not a number {bounds} to 1,000,000, such as 2 or 1.5"
        )
    return number


def _tier(text: str) -> str:
    if text.lower() not in TIERS:
        raise InvalidError(f"{_shown(text)} is none of {', '.join(TIERS)}")
    return text.lower()


def _channels(text: str) -> str:
    return ", ".join(read_names(text)) or NONE


def _shown(text: str) -> str:
    """Quote user input: shortened, and without control characters for the terminal."""
    return repr(text if len(text) <= SLUG_CHARS_MAX else f"{text[:SLUG_CHARS_MAX]}…")


def _records(lines: Iterable[str]) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the first line number of each record with its cells, or its error.

    What separates the cells is what the first line has most of; a spreadsheet writes semicolons
    where the comma is in numbers.
    """
    first = next(lines := iter(lines), "")
    csv.field_size_limit(CELL_MAX)
    delimiter = max(DELIMITERS, key=first.count)
    reader = csv.reader(chain([first] if first else [], lines), strict=True, delimiter=delimiter)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # It may contain any number of rows, so refusing only one row would be wrong.
            if reader.line_num > line:
                raise InvalidError(f"line {line}: a quote is opened and not closed") from None
            yield line, f"this is not CSV: {error}"
        else:
            yield line, cells


def _header(cells: Sequence[str] | str) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    known = f"the first line names the columns, separated by commas: {', '.join(COLUMNS)}"
    if isinstance(cells, str) or not any(names):
        raise InvalidError(known)
    if unknown := [name for name in names if name not in COLUMNS + NOTES]:
        raise InvalidError(f"unknown column {', '.join(map(_shown, unknown))}; {known}")
    if len(set(names)) < len(names):
        raise InvalidError(f"a column is there twice; {known}")
    if "sku" not in names:
        raise InvalidError(f"there is no column sku; {known}")
    return names


def _read(
    line: int,
    header: Sequence[str],
    cells: Sequence[str],
    *,
    only: SellerId | None,
    otherwise: SellerId | None,
) -> ImportRow | RefusedRow:
    cell_by_column = dict(zip(header, map(str.strip, cells), strict=False))
    seller = cell_by_column.get("seller") or otherwise
    reason = ""
    if any(cells[len(header) :]):
        reason = f"{len(cells)} cells under {len(header)} columns"
    elif seller is None:
        reason = "seller: there is none"
    elif only not in {None, seller}:
        reason = f"seller: this import is for {only} only (--seller)"
    else:
        try:
            return ImportRow(line=line, **_values(cell_by_column | {"seller": seller}))
        except InvalidError as error:
            reason = str(error)
    return RefusedRow(line=line, reason=reason, cells=cell_by_column)


def _values(cell_by_column: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for column in COLUMNS:
        if cell_by_column.get(column) or column == "sku":
            try:
                values[column] = READERS[column](cell_by_column.get(column, ""))
            except InvalidError as error:
                raise InvalidError(f"{column}: {error}") from None
    if "weight" in values and (others := [column for column in WORTH if column in values]):
        raise InvalidError(f"weight: it is given beside {' and '.join(others)}; leave out either")
    return values


def _unspoilt(text: str, what: str) -> str:
    """Return a number of a part; raises InvalidError if a spreadsheet has made another of it."""
    if SPOILT.fullmatch(text):
        raise InvalidError(
            f"a spreadsheet has rewritten the {what} as {text}; format the column as text, enter"
            f" the {what} again and export the file again"
        )
    return _name(text, what)


READERS: dict[str, Callable[[str], str | float]] = {
    "sku": partial(_unspoilt, what="part number"),
    "seller": seller_of,
    "shop_sku": partial(_unspoilt, what="shop SKU"),
    "title": _title,
    **{column: partial(gid_of, kind=kind) for column, kind in IDS.items()},
    "family": partial(_name, what="family"),
    "weight": partial(_number, is_above_0=True),
    "sales": _number,
    "margin": _number,
    "tier": _tier,
    "channels": _channels,
}
