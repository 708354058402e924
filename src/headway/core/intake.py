"""What may come in: part numbers, sellers, shop SKUs and ids, the rows of an import, their fates.

Decides what a name may be and how a shop calls a part; whether it is already there is the store's.
"""

import csv
import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

from headway.core.model import SellerId, Sku
from headway.core.reasons import Line, say_time
from headway.core.storefront import Gid
from headway.errors import InvalidError

CHARS_MAX = 255
SLUG_CHARS_MAX = 60
HASH_CHARS = 12
BOM = b"\xef\xbb\xbf"
IDS = {
    "shopify_product_id": "Product",
    "shopify_variant_id": "ProductVariant",
    "shopify_inventory_item_id": "InventoryItem",
}
COLUMNS = ("sku", "seller", "shop_sku", "title", *IDS)
# What we write beside a refused row, so that the file of refused rows can be mended and imported.
NOTES = ("line", "reason")

ShopSkuForm = Literal["same", "base"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One usable row of an import; what the file does not give is None."""

    line: int
    sku: Sku
    seller: SellerId
    shop_sku: str | None = None
    title: str | None = None
    shopify_product_id: Gid | None = None
    shopify_variant_id: Gid | None = None
    shopify_inventory_item_id: Gid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    """One row that is kept out, and why; the reason names the field."""

    line: int
    reason: str
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import came to."""

    added: int
    updated: int
    unchanged: int
    refused: Sequence[RefusedRow]
    sellers: Sequence[SellerId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part on its way into a shop: requested, normalized, published, blocked, failed or refused.

    While it is requested, `place` is its place among those that board first, or `due_at` is when it
    is tried again after a failure.
    """

    sku: Sku
    shop_sku: str
    status: str
    reason: str = ""
    shopify_product_id: str | None = None
    place: int | None = None
    due_at: datetime | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it may still become something else by itself."""
        return self.status in {"requested", "normalized"}


def sku_of(text: str) -> Sku:
    """Return a supplier's part number, stripped; raises InvalidError that shows it."""
    return Sku(_name(text, "part number"))


def seller_of(text: str) -> SellerId:
    """Return a seller's id, stripped; raises InvalidError that shows it."""
    return SellerId(_name(text, "seller"))


def shop_sku(sku: Sku, form: ShopSkuForm) -> str:
    """Return the shop's SKU of a part: the supplier's, or that without its `=suffix`."""
    base = sku.rpartition("=")[0].strip() if form == "base" else ""
    return base or sku


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
) -> Iterator[Row | RefusedRow]:
    """Read the rows of an import; raises InvalidError for a file that is unusable as a whole.

    `only` refuses the rows of any other seller; `otherwise` is whose a row is that names none.
    """
    records = _records(text_lines(lines))
    header = _header(next(records, (1, []))[1])
    if "seller" not in header and otherwise is None:
        raise InvalidError("whose parts are these? name the seller with --seller, or in a column")
    for line, cells in records:
        if isinstance(cells, str):
            yield RefusedRow(line=line, reason=cells, cells={})
        elif any(cell.strip() for cell in cells):
            yield _read(line, header, cells, only=only, otherwise=otherwise)


def read_at(part: Part, line: Line, *, seats: int, now: datetime) -> datetime | None:
    """Estimate when a requested part is read, at the earliest; None if it is not waiting."""
    if part.place is None:
        return part.due_at
    blocked_until = line.breaker.blocked_until(now)
    first = max(filter(None, (now, line.permit_at, line.paused_until, blocked_until)))
    return first + (part.place - 1) // seats * line.pace


def fate(part: Part, expected_at: datetime | None, now: datetime) -> str:
    """Say in a few words what has become of a part, or what it waits for."""
    said = [part.reason] if part.reason else []
    if part.status == "published":
        said = [part.shopify_product_id or ""]
    elif part.status == "normalized":
        said.insert(0, "waiting to be created in the shop")
    if part.place is not None:
        said.append(f"number {part.place:,} in line")
    if expected_at is not None:
        said.append(f"read at about {say_time(expected_at, now)}")
    return "; ".join(said)


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
    if any(unicodedata.category(each) in {"Cc", "Cs"} for each in title):
        raise InvalidError("holds a control character")
    return title


def _shown(text: str) -> str:
    """Quote what somebody typed, so that it neither fills the screen nor steers the terminal."""
    return repr(text if len(text) <= SLUG_CHARS_MAX else f"{text[:SLUG_CHARS_MAX]}…")


def _records(lines: Iterable[str]) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the line at which each record begins, and its cells, or what is wrong with it."""
    reader = csv.reader(lines, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # Who knows how many rows it has swallowed: to leave out but one would be a lie.
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
) -> Row | RefusedRow:
    given = dict(zip(header, map(str.strip, cells), strict=False))
    seller = given.get("seller") or otherwise
    reason = ""
    if any(cells[len(header) :]):
        reason = f"{len(cells)} cells under {len(header)} columns"
    elif seller is None:
        reason = "seller: there is none"
    elif only not in {None, seller}:
        reason = f"seller: this import is for {only} only (--seller)"
    else:
        try:
            return Row(line=line, **_values(given | {"seller": seller}))
        except InvalidError as error:
            reason = str(error)
    return RefusedRow(line=line, reason=reason, cells=given)


def _values(given: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for column in COLUMNS:
        if given.get(column) or column == "sku":
            try:
                values[column] = READERS[column](given.get(column, ""))
            except InvalidError as error:
                raise InvalidError(f"{column}: {error}") from None
    return values


READERS: dict[str, Callable[[str], str]] = {
    "sku": sku_of,
    "seller": seller_of,
    "shop_sku": partial(_name, what="shop SKU"),
    "title": _title,
    **{column: partial(gid_of, kind=kind) for column, kind in IDS.items()},
}
