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
from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.publishing import UNDER_WAY
from headway.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from headway.operations.publishing import PublishBatch, RequestedPart

EXAMPLES = """Examples:

headway publish "WF330523=7A" "AN 960/10L" --wait

headway publish --file parts.txt --seller acme

headway publish "WF330523=7A" --seller acme --seller acme/eu

headway publish -- "-3DASH"
"""
POLL_S = 1.0
WAIT_MAX_MIN = 15.0
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
        list[str] | None,
        typer.Option(
            help="The seller whose shop it is; needed if there are several. Repeat it for several"
            " shops."
        ),
    ] = None,
    file: Annotated[
        str | None, typer.Option(help="A file with a part number on each line; - is stdin.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until each part is in the shop or has failed.")
    ] = False,
    wait_max: Annotated[
        float, typer.Option(help="Minutes after which --wait stops.", min=0)
    ] = WAIT_MAX_MIN,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Put parts into the shop, and publish them on its sales channels.

    They are read in the next calls to the supplier, created in the shop by a running Headway, and
    published where `headway terms` says. You can repeat the command: a part is never created twice.
    Exit code 1 if a part was refused, blocked or failed, or is not done when --wait stops. Write --
    before a part number that begins with a dash.
    """
    part_numbers = [Sku(text) for text in (*(skus or []), *_from_file(file))]
    if not part_numbers:
        raise InvalidError("name a part number, or a file of them with --file")
    sellers = list(dict.fromkeys(seller_of(name) for name in seller or []))
    with open_target(server, creates=True) as target:
        if wait and not target.is_tended:
            raise InvalidError("--wait needs a running Headway; start it with: headway run")
        batches, refusals = _request(target.client, part_numbers, sellers)
        if wait:
            batches = [_await(target.client, batch, limit_s=wait_max * 60) for batch in batches]
    if len(sellers) > 1:
        _report_shops(batches, refusals, as_json=as_json)
    else:
        _report(batches[0], as_json=as_json)
    parts = [part for batch in batches for part in batch.parts]
    is_late = wait and any(map(_is_under_way, parts))
    if is_late:
        print(
            f"stopped waiting after {wait_max:g} min; Headway goes on. Ask again, or:"
            " headway explain PART",
            file=sys.stderr,
        )
    if is_late or refusals or any(map(_is_in_trouble, parts)):
        raise typer.Exit(1)


def _request(
    client: Client, part_numbers: list[Sku], sellers: list[SellerId]
) -> tuple[list[PublishBatch], dict[SellerId, str]]:
    """Ask for parts in one shop or in several; return the batches, and why shops take none."""
    from headway.operations import publishing

    if len(sellers) < 2:  # noqa: PLR2004 - one shop, or the only one
        named = sellers[0] if sellers else None
        one = publishing.PublishBody(part_numbers=part_numbers, seller=named)
        return [client.call(publishing.publish, one)], {}
    body = publishing.PublishInShopsBody(part_numbers=part_numbers, sellers=sellers)
    results = client.call(publishing.publish_in_shops, body).shops
    refusals = {result.seller: result.error for result in results if result.batch is None}
    return [result.batch for result in results if result.batch is not None], refusals


def _from_file(name: str | None) -> list[str]:
    if name is None:
        return []
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InvalidError(f"cannot read {name}: {error.strerror}") from None
    return [line for line in text_lines(raw.splitlines()) if line.strip()]


def _await(client: Client, batch: PublishBatch, *, limit_s: float) -> PublishBatch:
    """Wait until no part of a batch is under way; refused parts never belonged to it.

    What it waits for is on stderr, whenever that changes.
    """
    from headway.cli.session import REAL_TIME

    give_up_s = REAL_TIME.monotonic() + limit_s
    with progress("publishing", len(batch.parts)) as advance:
        shown, last_line = 0, ""
        while True:
            newest = _newest(client, batch)
            parts = tuple(newest.get(part.sku, part) for part in batch.parts)
            # A part that left the batch was requested again since: another batch waits for it.
            under_way = sum(_is_under_way(part) for part in newest.values())
            advance(len(parts) - under_way - shown)
            shown = len(parts) - under_way
            if not under_way or REAL_TIME.monotonic() >= give_up_s:
                return replace(batch, parts=parts)
            first = next(part for part in newest.values() if _is_under_way(part))
            if last_line != (last_line := f"{first.sku}: {first.status}; {first.note}"):
                print(f"waiting for {under_way:,} of {len(parts):,}; {last_line}", file=sys.stderr)
            REAL_TIME.sleep(POLL_S)


def _is_under_way(part: RequestedPart) -> bool:
    """Return True if its status will change by itself: not where the shop must change first."""
    if part.status == "requested":
        return not _has_failed(part)
    return part.status in UNDER_WAY or (part.status == "created" and not part.reason)


def _has_failed(part: RequestedPart) -> bool:
    """Return True if the supplier gave no good answer about it, so that it is tried again later."""
    return part.place is None and part.due_at is not None and bool(part.reason)


def _is_in_trouble(part: RequestedPart) -> bool:
    return part.status in TROUBLE or (part.status == "requested" and _has_failed(part))


def _newest(client: Client, batch: PublishBatch) -> dict[Sku, RequestedPart]:
    from headway.operations.publishing import published_batch

    try:
        parts = client.call(published_batch, batch.batch_id).parts
    except NotFoundError:  # every part of it was requested again
        return {}
    return {part.sku: part for part in parts}


def _report_shops(
    batches: list[PublishBatch], refusals: dict[SellerId, str], *, as_json: bool
) -> None:
    if as_json:
        shops = [
            {"batch_id": batch.batch_id, "seller": batch.seller, "parts": batch.parts}
            for batch in batches
        ]
        emit({"shops": shops, "refused": refusals})
        return
    for batch in batches:
        say(f"{batch.seller}:")
        _report(batch, as_json=False)
    for seller, error in refusals.items():
        say(f"{seller}: {error}")


def _report(batch: PublishBatch, *, as_json: bool) -> None:
    counts = Counter(part.status for part in batch.parts)
    if as_json:
        summary = {"batch_id": batch.batch_id, "seller": batch.seller, "counts": counts}
        emit({**summary, "parts": batch.parts})
        return
    trouble_first = sorted(batch.parts, key=lambda part: not _is_in_trouble(part))
    rows = [
        (part.sku, part.shop_sku, part.status, part.note) for part in trouble_first[:ROWS_SHOWN]
    ]
    table(("part", "in the shop", "status", "note"), rows)
    if len(batch.parts) > ROWS_SHOWN:
        say(f"and {len(batch.parts) - ROWS_SHOWN:,} more")
    totals = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    say(f"{totals}; batch {batch.batch_id}")
