"""`headway publish`: ask for parts to be put into the shop, and see what became of them."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.progress import progress
from headway.cli.target import Client, Server, open_target
from headway.core.catalog.intake import seller_of, text_lines
from headway.core.catalog.listings import Sku
from headway.core.catalog.publishing import UNDER_WAY
from headway.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from headway.operations.publishing import PublishBatch, RequestedPart

EXAMPLES = """Examples:

headway publish "WF330523=7A" "AN 960/10L" --wait

headway publish --file parts.txt --seller acme

headway publish -- "-3DASH"
"""
POLL_S = 1.0
ROWS_SHOWN = 50
TROUBLE = {"blocked", "failed", "refused"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("publish", epilog=EXAMPLES)(publish)


def publish(
    skus: Annotated[
        list[str] | None, typer.Argument(help="Part numbers, as the supplier writes them.")
    ] = None,
    *,
    seller: Annotated[
        str | None, typer.Option(help="Into whose shop; needed if several have one.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="A file with a part number on each line; - is stdin.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until each part is in the shop, or cannot be.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Put parts into the shop, and publish them on its sales channels.

    They are read in the next calls to the supplier, created in the shop by a headway that runs, and
    published where `headway terms` says. Ask as often as you like: a part is never made twice. Exit
    code 1 if a part was refused, blocked or failed. Write -- before a part number that begins with
    a dash.
    """
    from headway.operations.publishing import PublishBody
    from headway.operations.publishing import publish as request_parts

    part_numbers = [Sku(text) for text in (*(skus or []), *_from_file(file))]
    if not part_numbers:
        raise InvalidError("name a part number, or a file of them with --file")
    named = None if seller is None else seller_of(seller)
    body = PublishBody(part_numbers=part_numbers, seller=named)
    with open_target(server) as target:
        if wait and not target.is_tended:
            raise InvalidError("--wait needs a headway that works; start one with: headway run")
        batch = target.client.call(request_parts, body)
        if wait:
            batch = _await(target.client, batch)
        _report(batch, as_json=as_json)
    if any(part.status in TROUBLE for part in batch.parts):
        raise typer.Exit(1)


def _from_file(name: str | None) -> list[str]:
    if name is None:
        return []
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InvalidError(f"cannot read {name}: {error.strerror}") from None
    return [line for line in text_lines(raw.splitlines()) if line.strip()]


def _await(client: Client, batch: PublishBatch) -> PublishBatch:
    """Wait until no part of a batch is under way; refused parts never belonged to it."""
    from headway.cli.session import REAL_TIME

    with progress("publishing", len(batch.parts)) as advance:
        shown = 0
        while True:
            newest = _newest(client, batch)
            parts = tuple(newest.get(part.sku, part) for part in batch.parts)
            # A part that left the batch was requested again since: another batch waits for it.
            under_way = sum(_is_under_way(part) for part in newest.values())
            advance(len(parts) - under_way - shown)
            shown = len(parts) - under_way
            if not under_way:
                return replace(batch, parts=parts)
            REAL_TIME.sleep(POLL_S)


def _is_under_way(part: RequestedPart) -> bool:
    """Return True if its status will change by itself: not where the shop must change first."""
    return part.status in UNDER_WAY or (part.status == "created" and not part.reason)


def _newest(client: Client, batch: PublishBatch) -> dict[Sku, RequestedPart]:
    from headway.operations.publishing import published_batch

    try:
        parts = client.call(published_batch, batch.batch_id).parts
    except NotFoundError:  # every part of it was requested again
        return {}
    return {part.sku: part for part in parts}


def _report(batch: PublishBatch, *, as_json: bool) -> None:
    counts = Counter(part.status for part in batch.parts)
    if as_json:
        summary = {"batch_id": batch.batch_id, "seller": batch.seller, "counts": counts}
        emit({**summary, "parts": batch.parts})
        return
    trouble_first = sorted(batch.parts, key=lambda part: part.status not in TROUBLE)
    rows = [
        (part.sku, part.shop_sku, part.status, part.note) for part in trouble_first[:ROWS_SHOWN]
    ]
    table(("part", "in the shop", "status", "note"), rows)
    if len(batch.parts) > ROWS_SHOWN:
        say(f"and {len(batch.parts) - ROWS_SHOWN:,} more")
    totals = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    say(f"{totals}; batch {batch.batch_id}")
