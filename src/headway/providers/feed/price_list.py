"""A whole price list in memory, small enough for a million rows, and the quotes it gives."""

import functools
import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path

from headway.core.catalog.listings import DETAILS, Quote, Reply, Sku, SuppliedDetails
from headway.errors import UnreadableError
from headway.providers.feed.rows import (
    PROVIDER,
    BadRowError,
    PriceRow,
    price_row,
    read_rows,
    sku_of,
)
from headway.providers.feed.settings import TEXTS, FeedOptions

BAD_ROWS_KEPT, LISTS_MAX = 1000, 4
CHARS = 65_536
# Separates the cells of a packed row; it is not printable, so no cell holds it.
CELL, ROW = "\x1f", "\x1e"


class PriceList:
    """The rows of one list by SKU, packed as bytes, and the rows that cannot be used."""

    def __init__(self) -> None:
        self._rows: dict[str, bytes] = {}
        self._bad: dict[str, str] = {}
        self.bad_rows: list[str] = []
        self.bad_count = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, line: int, row: PriceRow) -> None:
        """Add a row; raises BadRowError if the list has another one for this SKU and location."""
        key = row.sku.casefold()
        cells = (
            _text(row.price),
            _text(row.list_price),
            row.currency,
            row.unit,
            row.location,
            str(row.quantity),
            *row.texts,
        )
        packed, known = CELL.join(cells).encode(), self._rows.get(key)
        if known is None:
            self._rows[key] = packed
            return
        for other in known.decode().split(ROW):
            if other == packed.decode():
                return
            other_cells = other.split(CELL)
            if other_cells[:4] != list(cells[:4]) or other_cells[4] == row.location:
                self.drop(row.sku, line, "two different rows for this SKU")
                return
        self._rows[key] = known + ROW.encode() + packed

    def drop(self, sku: str, line: int, reason: str) -> None:
        """Set a row aside; its SKU has no quote, whatever other rows say."""
        text = f"line {line}: {reason}"
        self.bad_count += 1
        if len(self.bad_rows) < BAD_ROWS_KEPT:
            self.bad_rows.append(f"{text} ({sku})" if sku else text)
        if sku:
            self._bad.setdefault(sku.casefold(), text)
            self._rows.pop(sku.casefold(), None)

    def changed_since(self, before: "PriceList") -> set[str]:
        """Return the SKUs, in lower case, whose row is new, other, bad or gone."""
        old_rows, old_bad = before._rows, before._bad  # noqa: SLF001 - of the same class
        changed = {sku for sku, row in self._rows.items() if old_rows.get(sku) != row}
        return changed | (old_rows.keys() - self._rows.keys()) | (self._bad.keys() ^ old_bad.keys())

    def is_bad(self, sku: str) -> bool:
        """Return True if a row of this SKU was set aside."""
        return sku.casefold() in self._bad

    def reply(self, skus: Sequence[Sku]) -> Reply:
        """Return the quotes of these SKUs from the list."""
        quotes: dict[Sku, Quote] = {}
        faulty: dict[Sku, str] = {}
        for sku in skus:
            key = sku.strip().casefold()
            if key in self._rows:
                quotes[sku] = _quote(sku, self._rows[key])
            elif key in self._bad:
                faulty[sku] = self._bad[key]
        missing = frozenset(set(skus) - quotes.keys() - faulty.keys())
        raw = {sku: _raw(quote) for sku, quote in quotes.items()}
        return Reply(quotes=quotes, missing=missing, faulty=faulty, raw=raw)


def read_list(lines: Iterable[str], options: FeedOptions) -> PriceList:
    """Read a whole list; raises UnreadableError if it is truncated or not a list at all."""
    prices = PriceList()
    for count, (line, fields) in enumerate(read_rows(lines, options)):
        if count >= options.rows_max:
            text = f"the price list has more than {options.rows_max:,} rows"
            raise UnreadableError(text, provider=PROVIDER)
        sku = ""
        try:
            sku = sku_of(fields, options)
            row = price_row(fields, options)
            if not prices.is_bad(sku):
                prices.add(line, row)
        except BadRowError as error:
            prices.drop(sku, line, str(error))
    return prices


def read_file(path: Path, options: FeedOptions) -> PriceList:
    """Read a list from a file; raises UnreadableError."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as text:
            return read_list(text if options.format == "csv" else _pieces(text), options)
    except UnicodeDecodeError:
        raise UnreadableError("the price list is not UTF-8 text", provider=PROVIDER) from None


class ListCache:
    """The lists of this process, each read once for its content and its options."""

    def __init__(self, lists_max: int = LISTS_MAX) -> None:
        self._lists: OrderedDict[tuple[Path, str, str], PriceList] = OrderedDict()
        self._lists_max = lists_max
        self._lock = threading.Lock()

    def keep(self, path: Path, sha256: str, options: FeedOptions, prices: PriceList) -> None:
        """Keep a list that was just read; an older version of the same file is forgotten."""
        with self._lock:
            for key in [key for key in self._lists if key[0] == path]:
                del self._lists[key]
            self._lists[path, sha256, options.text] = prices
            if len(self._lists) > self._lists_max:
                self._lists.popitem(last=False)

    def load(self, path: Path, sha256: str, options: FeedOptions) -> PriceList:
        """Return the list in a file; raises UnreadableError."""
        with self._lock:
            known = self._lists.get((path, sha256, options.text))
        if known is None:
            known = read_file(path, options)
            self.keep(path, sha256, options, known)
        return known


LISTS = ListCache()


def _pieces(text: io.TextIOBase) -> Iterable[str]:
    read: Callable[[], str] = functools.partial(text.read, CHARS)
    return iter(read, "")


def _quote(sku: Sku, packed: bytes) -> Quote:
    rows = [row.split(CELL) for row in packed.decode().split(ROW)]
    price, list_price, currency, unit, _, _, *cells = rows[0]
    texts = dict(zip_longest(TEXTS, cells, fillvalue=""))
    return Quote(
        sku=sku,
        list_price=Decimal(list_price) if list_price else None,
        net_price=Decimal(price) if price else None,
        currency=currency,
        quantities=dict(sorted((row[4], int(row[5])) for row in rows)),
        unit=unit,
        name=texts["name"],
        description=texts["description"],
        vendor=texts["vendor"],
        details=SuppliedDetails(**{name: texts[name] for name in DETAILS}),
    )


def _raw(quote: Quote) -> dict[str, object]:
    return {
        "price": _text(quote.net_price),
        "currency": quote.currency,
        "quantities": dict(quote.quantities),
        "name": quote.name,
        **{name: text for name in DETAILS if (text := getattr(quote.details, name))},
    }


def _text(price: Decimal | None) -> str:
    return "" if price is None else str(price)
