"""`headway rehearse`: what would be written to a shop, before anything is; and the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, facts, say, table
from headway.cli.progress import progress
from headway.cli.target import PAGE_MAX, Client, Server, Target, open_target
from headway.core.catalog.listings import Wait
from headway.core.catalog.rehearsal import RehearsedOutcome, split_version

if TYPE_CHECKING:
    from headway.core.catalog.listings import SellerId
    from headway.core.catalog.rehearsal import RehearsalSummary, RehearsedListing
    from headway.operations.rehearsals import RehearsalReport, StartedShop

POLL_S = 1.0
# A shop that answers nothing for so long is reported as far as it was read.
SILENCE_MAX_S = 120.0
ROWS_SHOWN = 30
LARGEST_SHOWN = 5
EXAMPLES = """Examples:

headway rehearse acme.myshopify.com

headway rehearse acme --all

headway rehearse acme --start 20261118T045512-9f3a1c2b7d04 --reason "checked with Ann"
"""
# The order of the table: what a person must look at first.
ORDER = [
    RehearsedOutcome.UNMATCHED,
    RehearsedOutcome.HELD,
    RehearsedOutcome.WRITE,
    RehearsedOutcome.CREATE,
    RehearsedOutcome.FAILING,
    RehearsedOutcome.READING,
    RehearsedOutcome.UNREAD,
    RehearsedOutcome.OFF,
    RehearsedOutcome.SAME,
]
MEANINGS = {
    RehearsedOutcome.WRITE: "would be changed",
    RehearsedOutcome.CREATE: "would be created",
    RehearsedOutcome.SAME: "already correct",
    RehearsedOutcome.HELD: "keep their price until you approve or reject it",
    RehearsedOutcome.UNMATCHED: "cannot be written",
    RehearsedOutcome.READING: "are still being read in the shop",
    RehearsedOutcome.UNREAD: "not yet read at the supplier",
    RehearsedOutcome.FAILING: "have no usable quote from the supplier",
    RehearsedOutcome.OFF: "are paused or switched off",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rehearse", epilog=EXAMPLES)(rehearse)


def rehearse(
    shop: Annotated[str, typer.Argument(help="The shop's address, or the name of its seller.")],
    *,
    start: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Start the shop as the report of that version says."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why it is started, for the record.")] = "",
    read: Annotated[
        bool, typer.Option(help="Read the shop again first, or report what was read last.")
    ] = True,
    every: Annotated[bool, typer.Option("--all", help="Show every listing.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show what Headway would write to a shop, and start the shop.

    A new shop is in rehearsal: Headway reads it and writes nothing until you start it with the
    version of a report. If the writes have changed since that report, the start is refused.
    Without --start this command never writes.
    """
    from headway.operations import rehearsals
    from headway.operations.rehearsals import StartBody

    with open_target(server) as target:
        if start is not None:
            body = StartBody(version=start, reason=reason)
            _print_started(target.client.call(rehearsals.start, shop, body), as_json=as_json)
            return
        if read:
            _read_again(target, shop)
        report = _whole(target.client, shop)
    if as_json:
        emit(report)
        return
    _print_report(report, every=every)


def _read_again(target: Target, shop: str) -> None:
    """Have a shop in rehearsal read again, and wait for it."""
    from headway.cli.session import REAL_TIME
    from headway.operations import rehearsals

    again = target.client.call(rehearsals.read_again, shop)
    left, until_s = again.listings, REAL_TIME.monotonic() + SILENCE_MAX_S
    read_some = _reader(target, again.seller) if left else None
    with progress("reading the shop", left) as advance:
        while left and read_some and REAL_TIME.monotonic() < until_s:
            read_some()
            summary = target.client.call(rehearsals.rehearsal, shop, limit=1).summary
            reading = summary.outcomes.get(RehearsedOutcome.READING, 0)
            if reading < left:
                advance(left - reading)
                left, until_s = reading, REAL_TIME.monotonic() + SILENCE_MAX_S


def _reader(target: Target, seller: SellerId) -> Callable[[], None]:
    """Return what reads a shop for a second: this process, within the shop's limit, or a server."""
    from headway.cli.session import REAL_TIME
    from headway.store.accounts.connections import ConnectedShops

    if target.session is None:
        return lambda: REAL_TIME.sleep(POLL_S)
    app, accounts = target.session.app, ConnectedShops(target.session.app.pool)
    push = app.push("rehearse", only=accounts.of_seller(seller).id)

    def read_some() -> None:
        until_s = REAL_TIME.monotonic() + POLL_S
        # Somebody may start the shop meanwhile: this command never writes.
        while REAL_TIME.monotonic() < until_s and accounts.of_seller(seller).is_in_rehearsal:
            result = push.step()
            if isinstance(result, Wait):
                wait_s = (result.until - app.clock.now()).total_seconds()
                app.clock.sleep(min(max(wait_s, 0), POLL_S))

    return read_some


def _whole(client: Client, shop: str) -> RehearsalReport:
    """Return a report with all its listings; made again if they changed between two pages."""
    from headway.operations import rehearsals

    while True:
        report = client.call(rehearsals.rehearsal, shop, limit=PAGE_MAX)
        rows, page = [*report.items], report
        while page.next_cursor is not None and _digest(page) == _digest(report):
            page = client.call(rehearsals.rehearsal, shop, cursor=page.next_cursor, limit=PAGE_MAX)
            rows += page.items
        if _digest(page) == _digest(report):
            return replace(report, items=tuple(rows), next_cursor=None)


def _digest(report: RehearsalReport) -> str:
    return split_version(report.version)[1]


def _print_report(report: RehearsalReport, *, every: bool) -> None:
    say(f"{report.shop} of {report.seller}: {_state(report)}", style="bold")
    facts([*_about_shop(report), *_about_writes(report.summary)])
    rows = sorted(report.items, key=lambda row: (ORDER.index(row.outcome), row.sku))
    if not every:
        rows = [row for row in rows if row.outcome is not RehearsedOutcome.SAME]
    shown = rows if every else rows[:ROWS_SHOWN]
    say()
    table(
        ("part", "in the shop", "what", "price", "stock", "other fields", "note"),
        [_cells(row) for row in shown],
        empty="no listing would be written",
    )
    if len(rows) > len(shown):
        say(f"and {len(rows) - len(shown):,} more: headway rehearse {report.seller} --all")
    say()
    for warning in report.warnings:
        say(f"warning: {warning}")
    _print_next(report)


def _print_next(report: RehearsalReport) -> None:
    """Say what the reader can do now."""
    if not report.is_in_rehearsal:
        say("the shop is started: Headway writes these changes now")
        return
    for block in report.blocks:
        say(f"cannot be started yet: {block}")
    if not report.blocks:
        say(f"looks right? headway rehearse {report.seller} --start {report.version}")


def _state(report: RehearsalReport) -> str:
    if report.started_at is not None:
        return f"started at {report.started_at:%Y-%m-%d %H:%M} UTC"
    return "in rehearsal, nothing is written"


def _about_shop(report: RehearsalReport) -> Iterator[tuple[str, str]]:
    yield "API version", report.api_version
    if report.scopes is not None:
        granted = [scope.name for scope in report.scopes if scope.is_granted]
        yield "scopes", f"{len(granted)} of {len(report.scopes)} granted"
        for scope in report.scopes:
            if not scope.is_granted:
                yield "not granted", f"{scope.name} ({scope.purpose})"
    if report.locations is not None:
        mapped = [place.name for place in report.locations if place.is_in_shop and place.is_mapped]
        others = [
            place.name for place in report.locations if place.is_in_shop and not place.is_mapped
        ]
        yield "locations", f"{', '.join(mapped) or 'none'} mapped"
        if others:
            yield "left alone", ", ".join(others)


def _about_writes(summary: RehearsalSummary) -> Iterator[tuple[str, str]]:
    for outcome in ORDER:
        if count := summary.outcomes.get(outcome):
            yield outcome.value, f"{count:,} {MEANINGS[outcome]}"
    if summary.prices_up or summary.prices_down:
        moves = f"{summary.prices_up:,} up, {summary.prices_down:,} down"
        sums = f"{summary.prices_sum_old:,.2f} → {summary.prices_sum_new:,.2f}"
        yield "prices", f"{moves}; together {sums}"
    yield "stock", f"{summary.stock_old:,} → {summary.stock_new:,}; {summary.zeroed:,} to zero"
    fields = [f"{count:,} {name}" for name, count in summary.fields.items()]
    yield "fields", ", ".join(fields) or "none"
    if summary.concerns:
        yield "look at", f"{summary.concerns:,} listings with a note"
    if summary.largest:
        largest = [f"{row.sku} {_percent(row.move)}" for row in summary.largest[:LARGEST_SHOWN]]
        yield "largest moves", ", ".join(largest)


def _cells(row: RehearsedListing) -> Sequence[str]:
    others = [
        f"{write.field} {write.old or 'none'} → {write.new or 'none'}"
        for write in row.writes
        if write.field not in {"price", "stock", "create"}
    ]
    places = [
        f"{write.location} {write.old or 0} → {write.new}"
        for write in row.writes
        if write.field == "stock"
    ]
    note = "; ".join(part for part in (row.reason, *row.concerns) if part)
    shop_sku = "" if row.shop_sku == row.sku else row.shop_sku
    return (
        row.sku, shop_sku, row.outcome.value, _price(row), ", ".join(places), ", ".join(others),
        note,
    )  # fmt: skip


def _price(row: RehearsedListing) -> str:
    if row.price_new is None or row.price_old == row.price_new:
        return "" if row.price_old is None else f"{row.price_old}"
    return f"{row.price_old or 'none'} → {row.price_new}"


def _percent(share: Decimal | None) -> str:
    return "" if share is None else f"{share * 100:+.1f} %"


def _print_started(started: StartedShop, *, as_json: bool) -> None:
    if as_json:
        emit(started)
        return
    say(started.message)
    say("see how it goes with: headway status")
