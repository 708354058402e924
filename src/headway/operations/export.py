"""Events as text, in pieces: CSV, or one JSON object per line."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Literal

from headway.errors import StoreError
from headway.store.catalog.history import HistoryEvent

FIELDS = (
    "id", "at", "seller", "sku", "kind", "old", "new", "error", "actor", "job_id", "call_id",
)  # fmt: skip
STOPPED = "export_stopped"
CHUNK = 500
# A spreadsheet takes a cell that begins so for a formula; an apostrophe makes it a text.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")

Row = dict[str, Any]
Form = Literal["csv", "jsonl"]


def exported(events: Iterator[HistoryEvent], form: Form) -> Iterator[str]:
    """Write events as the export has them, in pieces; what they raise ends it."""
    write = as_csv if form == "csv" else as_lines
    rows = map(_row, events)
    chunk = list(islice(rows, CHUNK))  # before the head, so that a refusal writes nothing
    if form == "csv":
        yield line(FIELDS)
    while chunk:
        yield write(chunk)
        chunk = list(islice(rows, CHUNK))


def chunks(
    begun: list[HistoryEvent],
    events: Iterator[HistoryEvent],
    write: Callable[[Sequence[Row]], str],
    *,
    head: str,
) -> Iterator[str]:
    """Yield an export in pieces; if the database goes away, its last row says so."""
    yield head
    rows = map(_row, chain(begun, events))
    while True:
        chunk: list[Row] = []
        try:
            chunk.extend(islice(rows, CHUNK))
        except StoreError as error:
            stopped = dict.fromkeys(FIELDS) | {"kind": STOPPED, "error": str(error)}
            yield write([*chunk, stopped])
            return
        if not chunk:
            return
        yield write(chunk)


def _row(event: HistoryEvent) -> Row:
    return {
        "id": event.id,
        "at": event.at.isoformat(),
        "seller": event.seller,
        "sku": event.sku,
        "kind": event.kind,
        "old": event.old,
        "new": event.new,
        "error": event.error,
        "actor": event.actor,
        "job_id": event.job_id,
        "call_id": event.call_id,
    }


def as_lines(rows: Sequence[Row]) -> str:
    """Write rows as JSON, one object per line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def as_csv(rows: Sequence[Row]) -> str:
    """Write rows as CSV, without a head."""
    return "".join(line([cell_text(row[name]) for name in FIELDS]) for row in rows)


def line(cells: Sequence[str]) -> str:
    """Write one row of CSV."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow(cells)
    return written.getvalue()


def cell_text(value: object) -> str:
    """Write a value as a cell of CSV; one that a spreadsheet takes for a formula as a text."""
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
    return f"'{text}" if text.startswith(FORMULAS) else text
