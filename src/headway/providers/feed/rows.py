"""Read a price list row by row; a bad row is set aside with its line number, the list goes on.

Pure: it reads lines of text. A list that ends in the middle of a row raises UnreadableError.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from headway.errors import UnreadableError
from headway.providers.feed.settings import TEXTS, FeedOptions
from headway.providers.reply_fields import (
    plain_line,
    read_number,
    read_price,
    read_quantity,
)

PROVIDER = "feed"
TEXT_CHARS_MAX, DESCRIPTION_CHARS_MAX, ROW_CHARS_MAX = 255, 5000, 100_000
YES, NO = frozenset({"yes", "true", "y", "1"}), frozenset({"no", "false", "n", "0", ""})
CURRENCY = re.compile(r"[A-Z]{3}")
BETWEEN_ITEMS, BETWEEN_LINES = re.compile(r"[\s,]*"), re.compile(r"\s*")

Fields = Mapping[str, object]
T = TypeVar("T")


class BadRowError(Exception):
    """This row cannot be used; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """One usable row; `list_price` and `price` are None where the list has no price.

    `texts` are those of `TEXTS`, without empty ones at the end.
    """

    sku: str
    price: Decimal | None
    list_price: Decimal | None
    currency: str
    location: str
    quantity: int
    unit: str = ""
    texts: tuple[str, ...] = ()


def truncated(reason: str) -> UnreadableError:
    """Return the error of a list that ends too early."""
    return UnreadableError(f"the price list is truncated: {reason}", provider=PROVIDER)


def read_rows(lines: Iterable[str], options: FeedOptions) -> Iterator[tuple[int, Fields]]:
    """Yield every row with its line number, or its position in a JSON list."""
    return _csv_rows(lines, options) if options.format == "csv" else _json_rows(lines, options)


def _csv_rows(lines: Iterable[str], options: FeedOptions) -> Iterator[tuple[int, Fields]]:
    reader = csv.reader(lines, delimiter=options.delimiter, strict=True)
    header = [name.strip() for name in next(_cells(reader), [])]
    check_columns(header, options)
    pending: tuple[int, list[str]] | None = None
    count, has_trailer = 0, False
    for cells in _cells(reader):
        if pending is not None:
            yield _csv_row(pending, header)
            pending = None
        if not any(cell.strip() for cell in cells):
            continue
        if options.trailer and cells[0].strip() == options.trailer:
            check_trailer(cells[1:], count)
            has_trailer = True
            continue
        has_trailer, count, pending = False, count + 1, (reader.line_num, cells)
    if options.trailer and not has_trailer:
        raise truncated(f"it does not end with {options.trailer}")
    if pending is not None:
        if len(pending[1]) < len(header):
            raise truncated(f"line {pending[0]}, the last one, has too few columns")
        yield _csv_row(pending, header)


def _cells(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end" in str(error):
                raise truncated("it ends inside a quoted cell") from None
            yield [f"unreadable: {error}"]


def _csv_row(row: tuple[int, list[str]], header: list[str]) -> tuple[int, Fields]:
    line, cells = row
    if len(cells) != len(header):
        return line, {"": f"{len(cells)} columns instead of {len(header)}", "cells": cells}
    return line, dict(zip(header, cells, strict=True))


def _json_rows(lines: Iterable[str], options: FeedOptions) -> Iterator[tuple[int, Fields]]:
    decoder = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal)
    source = iter(lines)
    text, is_array = _json_start(source, options)
    between, at, position = BETWEEN_ITEMS if is_array else BETWEEN_LINES, 0, 0
    while True:
        at = _end(between.match(text, at))
        if is_array and text.startswith("]", at):
            return
        try:
            row, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            piece = next(source, "")
            if not piece and not is_array and at == len(text):
                return
            if not piece:
                raise truncated("it ends inside a row") from None
            if len(text) - at > ROW_CHARS_MAX:
                reason = "a row of the price list is too long, or not JSON"
                raise UnreadableError(reason, provider=PROVIDER) from None
            text, at = text[at:] + piece, 0
            continue
        at, position = end, position + 1
        yield position, row if isinstance(row, dict) else {"": "not an object"}


def _end(match: re.Match[str] | None) -> int:
    assert match is not None, "the expression also matches nothing"
    return match.end()


def _json_start(source: Iterator[str], options: FeedOptions) -> tuple[str, bool]:
    """Return the text from the first row on, and True if the rows are in an array."""
    text = ""
    for piece in source:
        text += piece
        start = text.lstrip("\ufeff \t\r\n")
        if start.startswith("["):
            return start[1:], True
        if not options.items and start.startswith("{"):
            return start, False
        if options.items:
            match = re.search(rf'"{re.escape(options.items)}"\s*:\s*\[', text)
            if match:
                return text[match.end() :], True
        if len(text) > ROW_CHARS_MAX or (start and start[0] not in "[{"):
            break
    raise UnreadableError("the price list is not JSON with a list of rows", provider=PROVIDER)


def check_columns(header: list[str], options: FeedOptions) -> None:
    """Raise UnreadableError if the list lacks a column that it should have."""
    for field, column in options.columns.items():
        if column not in header:
            names = ", ".join(header)[:TEXT_CHARS_MAX]
            text = f"the price list has no column {column} ({field}); it has: {names}"
            raise UnreadableError(text, provider=PROVIDER)


def check_trailer(cells: list[str], count: int) -> None:
    """Raise UnreadableError if the trailer counts other rows than were read."""
    number = cells[0].strip() if cells else ""
    if number.isdigit() and int(number) != count:
        raise truncated(f"its trailer counts {int(number):,} rows, it has {count:,}")


def sku_of(fields: Fields, options: FeedOptions) -> str:
    """Return the SKU of a row; raises BadRowError."""
    value = fields.get(options.columns["sku"])
    sku = str(value).strip() if isinstance(value, str | Decimal) else ""
    if not sku or len(sku) > TEXT_CHARS_MAX or not sku.isprintable():
        raise BadRowError(str(fields[""]) if "" in fields else "no SKU")
    return sku


def price_row(fields: Fields, options: FeedOptions) -> PriceRow:
    """Return a row as numbers; raises BadRowError."""
    columns = options.columns
    price = list_price = _read(_price, fields, columns["price"])
    if "list_price" in columns:
        list_price = _read(_price, fields, columns["list_price"])
    currency = options.currency
    if "currency" in columns:
        currency = str(fields.get(columns["currency"]) or currency).strip().upper()
    if not CURRENCY.fullmatch(currency):
        raise BadRowError(f"currency {currency[:10]!r} is not three letters")
    location = options.location
    if "location" in columns:
        location = str(fields.get(columns["location"]) or "").strip()
        if not location or len(location) > TEXT_CHARS_MAX or not location.isprintable():
            raise BadRowError("no location")
    return PriceRow(
        sku=sku_of(fields, options),
        price=price,
        list_price=list_price,
        currency=currency,
        location=location,
        quantity=_quantity(fields, columns),
        unit=_text(fields, columns, "unit").upper(),
        texts=_texts(fields, columns),
    )


def _texts(fields: Fields, columns: Mapping[str, str]) -> tuple[str, ...]:
    texts = [_text(fields, columns, name) for name in TEXTS]
    while texts and not texts[-1]:
        texts.pop()
    return tuple(texts)


def _text(fields: Fields, columns: Mapping[str, str], name: str) -> str:
    value = fields.get(columns[name]) if name in columns else None
    chars_max = DESCRIPTION_CHARS_MAX if name == "description" else TEXT_CHARS_MAX
    return plain_line(str(value), chars_max) if isinstance(value, str | Decimal) else ""


def _quantity(fields: Fields, columns: Mapping[str, str]) -> int:
    if "quantity" in columns:
        return _read(read_quantity, fields, columns["quantity"])
    column = columns["in_stock"]
    text = str(fields.get(column, "")).strip().lower()
    if text not in YES | NO:
        raise BadRowError(f"{column} is neither yes nor no")
    return int(text in YES)


def _price(value: object) -> Decimal | None:
    """Return a price; a number that cannot be one is none, which is held while stock is updated."""
    try:
        return read_price(value)
    except ValueError:
        read_number(value)  # raises ValueError if it is not even a number
        return None


def _read(read: Callable[[object], T], fields: Fields, column: str) -> T:
    try:
        return read(fields.get(column))
    except ValueError as error:
        raise BadRowError(f"{column} is {error}") from None
