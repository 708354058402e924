"""`/api/audit`: every event there is, as CSV or as lines of JSON, however many.

The export is read and sent in chunks. Once it has begun, the status can no longer say that the
database went away; then the last line is an event of the kind `export_stopped`, with the reason.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Annotated, Any, Literal

from fastapi import Depends, Query
from fastapi.responses import StreamingResponse

from headway.errors import StoreError
from headway.operations import history
from headway.operations.callers import Caller
from headway.operations.history import SkuQuery
from headway.operations.inputs import SellerQuery, Since, Until
from headway.store.catalog.history import HistoryEvent
from headway.web.access import Requirement

FIELDS = (
    "id", "at", "seller", "sku", "kind", "old", "new", "error", "actor", "job_id", "call_id",
)  # fmt: skip
STOPPED = "export_stopped"
CHUNK = 500
# A spreadsheet takes a cell that begins so for a formula; an apostrophe makes it a text.
FORMULAS = ("=", "+", "-", "@", "\t", "\r")
CSV, LINES = "text/csv; charset=utf-8", "application/x-ndjson"
EXAMPLE = {
    "id": "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11", "at": "2026-03-04T12:00:00+00:00",
    "seller": "acme", "sku": "WF338109=K3", "kind": "price_changed",
    "old": {"list_price": "118.00"}, "new": {"list_price": "129.90"}, "error": "", "actor": None,
    "job_id": None, "call_id": None,
}  # fmt: skip

Row = dict[str, Any]
Form = Literal["csv", "jsonl"]


def export(
    caller: Annotated[Caller, Depends(Requirement(history.audit.need))],
    *,
    seller: SellerQuery = None,
    since: Since = None,
    until: Until = None,
    sku: SkuQuery = None,
    kind: Annotated[list[str] | None, Query(max_length=50)] = None,
    format_: Annotated[Form, Query(alias="format")] = "csv",
) -> StreamingResponse:
    """Export events, the oldest first; `kind` may be given several times.

    In CSV a cell that a spreadsheet would take for a formula begins with an apostrophe. If the
    database goes away under way, the last line is of the kind `export_stopped` and says why.
    """
    events = history.audit(caller, seller=seller, since=since, until=until, sku=sku, kind=kind)
    # The first chunk is read before the reply begins, so that an error can still be its status.
    begun = list(islice(events, CHUNK))
    is_csv = format_ == "csv"
    name = "headway-audit.csv" if is_csv else "headway-audit.jsonl"
    return StreamingResponse(
        _chunks(begun, events, _csv if is_csv else _lines, head=_line(FIELDS) if is_csv else ""),
        media_type=CSV if is_csv else LINES,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def exported(events: Iterator[HistoryEvent], form: Form) -> Iterator[str]:
    """Write events as the export has them, in pieces; what they raise ends it."""
    write = _csv if form == "csv" else _lines
    rows = map(_row, events)
    chunk = list(islice(rows, CHUNK))  # before the head, so that a refusal writes nothing
    if form == "csv":
        yield _line(FIELDS)
    while chunk:
        yield write(chunk)
        chunk = list(islice(rows, CHUNK))


def _chunks(
    begun: list[HistoryEvent],
    events: Iterator[HistoryEvent],
    write: Callable[[Sequence[Row]], str],
    *,
    head: str,
) -> Iterator[str]:
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
        "seller": event.user_id,
        "sku": event.sku,
        "kind": event.kind,
        "old": event.old,
        "new": event.new,
        "error": event.error,
        "actor": event.actor,
        "job_id": event.job_id,
        "call_id": event.call_id,
    }


def _lines(rows: Sequence[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _csv(rows: Sequence[Row]) -> str:
    return "".join(_line([_cell(row[name]) for name in FIELDS]) for row in rows)


def _line(cells: Sequence[str]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow(cells)
    return written.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
    return f"'{text}" if text.startswith(FORMULAS) else text


REPLIES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events, the oldest first.",
        "content": {
            "text/csv": {"schema": {"type": "string"}, "example": _csv([EXAMPLE])},
            LINES: {"schema": {"type": "string"}, "example": _lines([EXAMPLE])},
        },
    }
}
