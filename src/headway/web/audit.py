"""`/api/audit`: every event there is, as CSV or as lines of JSON, however many.

The export is read and sent in chunks. Once it has begun, the status can no longer say that the
database went away; then the last line is an event of the kind `export_stopped`, with the reason.
"""

from itertools import islice
from typing import Annotated, Any

from fastapi import Depends, Query
from fastapi.responses import StreamingResponse

from headway.operations import history
from headway.operations.callers import Caller
from headway.operations.export import CHUNK, FIELDS, Form, as_csv, as_lines, chunks, line
from headway.operations.history import SkuQuery
from headway.operations.inputs import SellerQuery, Since, Until
from headway.web.access import Requirement

CSV, LINES = "text/csv; charset=utf-8", "application/x-ndjson"
EXAMPLE = {
    "id": "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11", "at": "2026-03-04T12:00:00+00:00",
    "seller": "acme", "sku": "WF338109=K3", "kind": "price_changed",
    "old": {"list_price": "118.00"}, "new": {"list_price": "129.90"}, "error": "", "actor": None,
    "job_id": None, "call_id": None,
}  # fmt: skip


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
        chunks(begun, events, as_csv if is_csv else as_lines, head=line(FIELDS) if is_csv else ""),
        media_type=CSV if is_csv else LINES,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


REPLIES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events, the oldest first.",
        "content": {
            "text/csv": {"schema": {"type": "string"}, "example": as_csv([EXAMPLE])},
            LINES: {"schema": {"type": "string"}, "example": as_lines([EXAMPLE])},
        },
    }
}
