"""`headway parts` and `headway history`: find a part, and see what happened to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Client, Server, collect, open_client, seller_id
from headway.core.catalog.channels import visibility_change
from headway.core.catalog.listings import ProductState, Sku, own_values
from headway.core.catalog.price_history import OBSERVATIONS, SHOWN, price_points
from headway.core.reasons import format_time
from headway.errors import InvalidError, NotFoundError
from headway.web.formatting import money, result

if TYPE_CHECKING:
    from headway.core.catalog.listings import SellerId
    from headway.core.catalog.price_history import SeriesPoint
    from headway.store.catalog.history import HistoryEvent
    from headway.store.catalog.product_list import ProductView
    from headway.store.status import RecentCall

PARTS_EXAMPLES = """Examples:

headway parts

headway parts 330523

headway parts --state parked --seller acme --json
"""
HISTORY_EXAMPLES = """Examples:

headway history "WF330523=7A"

headway history "AN 960/10L" --seller acme --kind price_changed --limit 200

headway history --export shop.csv --seller acme
"""
LIMIT = 50
CHART_COLUMNS = 48
Lines = Mapping[str, Sequence[tuple[datetime, Decimal | None]]]
Limit = Annotated[int, typer.Option(min=1, help="How many to show at most.")]
Seller = Annotated[str | None, typer.Option(help="Only this seller's.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("parts", epilog=PARTS_EXAMPLES)(parts)
    app.command("history", epilog=HISTORY_EXAMPLES)(history)


def parts(
    text: Annotated[
        str, typer.Argument(help="A piece of the part number, the shop's SKU or the title.")
    ] = "",
    *,
    state: Annotated[ProductState | None, typer.Option(help="Only those in this state.")] = None,
    seller: Seller = None,
    limit: Limit = LIMIT,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List parts, or find them by a piece of their text.

    Each with its state, the supplier's price and stock, what the shop shows, and when it is due.
    """
    from headway.operations import listings

    with open_client(server) as client:
        rows, has_more = collect(
            client, listings.products, q=text, state=state, seller=seller_id(seller), limit=limit
        )
        if as_json:
            emit({"now": client.now, "parts": rows, "has_more": has_more})
            return
        _print_parts(rows, client.now)
        if has_more:
            say(f"and more; show them with --limit {limit * 10}")


def history(
    sku: Annotated[
        str | None, typer.Argument(help="The supplier's part number; all parts with --export.")
    ] = None,
    *,
    export: Annotated[
        Path | None,
        typer.Option(help="File to write for headway simulate --changes, instead of a report."),
    ] = None,
    seller: Seller = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only events of this kind; may be repeated.")
    ] = None,
    limit: Limit = LIMIT,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show what happened to a part: its price, stock and calls over time.

    The newest event comes first; each write to a shop is one. Price and stock are drawn from the
    last changes, for each seller. At the end are the supplier's calls that carried the part.

    With --export it writes what the supplier quoted over time, for one part or all, so that your
    shop's past can be simulated under another policy.
    """
    if export is not None:
        _export(sku, seller_id(seller), export, server, as_json=as_json)
        return
    if sku is None:
        raise InvalidError("name a part, or a file with --export")
    from headway.operations import history as event_history
    from headway.operations import listings
    from headway.store.catalog.history import LIMIT_MAX

    part, user_id = Sku(sku), seller_id(seller)
    with open_client(server) as client:
        events, has_more = _events(client, part, user_id, kind, limit)
        kinds = [*OBSERVATIONS, *SHOWN]
        changes = client.call(
            event_history.history, part, seller=user_id, kind=kinds, limit=LIMIT_MAX
        ).items
        sellers = sorted({event.seller for event in changes})
        prices = {
            name: price_points(
                (event.at, event.kind, event.new)
                for event in reversed(changes)
                if event.seller == name
            )
            for name in sellers
        }
        calls = client.call(listings.calls, part, seller=user_id).calls
        if as_json:
            summary = {"now": client.now, "sku": sku, "events": events, "has_more": has_more}
            emit({**summary, "prices": prices, "calls": calls})
            return
        _print_events(events, client.now)
        if has_more:
            say(f"and more; show them with --limit {limit * 10}")
        for name, points in prices.items():
            _print_series(name, points, client.now)
        _print_calls(calls, client.now)


def _export(
    sku: str | None, seller: SellerId | None, out: Path, server: str | None, *, as_json: bool
) -> None:
    """Write the supplier's quotes over time; the file appears only when it is complete."""
    import csv

    from headway.cli.monitoring import whole_file
    from headway.core.catalog.replay import HEADER, KINDS, ReplayEvent, replay_rows
    from headway.operations import history as event_history

    part = None if sku is None else Sku(sku)
    with open_client(server) as client:
        events = client.call(event_history.audit, sku=part, seller=seller, kind=list(KINDS))
        rows = list(
            replay_rows(
                ReplayEvent(at=event.at, sku=event.sku, kind=event.kind, new=event.new)
                for event in events
                if event.sku is not None
            )
        )
    if not rows:
        raise NotFoundError("no price was read yet, so there is nothing to export")
    with whole_file(out, "--export") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])
    parts_count = len({row[1] for row in rows})
    if as_json:
        emit({"file": str(out), "parts": parts_count, "changes": len(rows) - parts_count})
    else:
        say(f"{parts_count:,} parts and {len(rows) - parts_count:,} changes in {out}")
        say(f"replay them: headway simulate --changes {out} --policy rolling")


def _events(
    client: Client, sku: Sku, seller: SellerId | None, kinds: list[str] | None, limit: int
) -> tuple[list[HistoryEvent], bool]:
    """Return so many events, and whether there are more."""
    from headway.operations import history as event_history

    return collect(client, event_history.history, sku=sku, seller=seller, kind=kinds, limit=limit)


def _print_parts(products: Sequence[ProductView], now: datetime) -> None:
    rows = [
        (
            product.sku,
            product.seller,
            product.state,
            product.title,
            "" if product.supplier_price is None else money(product.supplier_price),
            "" if product.supplier_quantity is None else f"{product.supplier_quantity:,}",
            "" if product.shop_price is None else money(product.shop_price),
            format_time(product.due_at, now),
            _note(product),
        )
        for product in products
    ]
    headings = ("part", "seller", "state", "title", "supplier", "stock", "shop", "due", "note")
    table(headings, rows, empty="no such part", right={4, 5, 6})


def _note(product: ProductView) -> str:
    if product.held_reason:
        return f"held: {product.held_reason}"
    return product.push_error or product.last_error


def _print_events(events: Sequence[HistoryEvent], now: datetime) -> None:
    rows = [
        (
            format_time(event.at, now),
            event.seller,
            event.kind.replace("_", " "),
            _difference(own_values(event.kind, event.old), own_values(event.kind, event.new)),
            event.actor,
            event.error,
        )
        for event in events
    ]
    table(("when", "seller", "what", "change", "by", "note"), rows, empty="nothing happened yet")


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the differences, by the event's own field names; stock as a sum."""
    differences = []
    for name, after in new.items():
        before = old.get(name)
        if name == "channels":
            continue
        if isinstance(after, Mapping):
            name, before, after = "stock", _sum(before), _sum(after)  # noqa: PLW2901 - its short form
        if before != after:
            differences.append(f"{name.replace('_', ' ')} {_word(before)} to {_word(after)}")
    return ", ".join(filter(None, (*differences, visibility_change(old, new))))


def _sum(quantities: Any) -> int | None:  # noqa: ANN401 - what JSON holds
    is_stock = isinstance(quantities, Mapping)
    return sum(filter(None, quantities.values())) if is_stock else None


def _word(value: object) -> str:
    return "none" if value is None else str(value)


def _print_series(seller: SellerId, points: Sequence[SeriesPoint], now: datetime) -> None:
    """Draw price and stock at one seller, the supplier's and the shop's, over one axis of time."""
    prices: Lines = {
        "supplier": [(point.at, point.supplier_price) for point in points],
        "shop": [(point.at, point.shop_price) for point in points],
    }
    stocks: Lines = {
        "supplier": [(point.at, _decimal(point.supplier_quantity)) for point in points],
        "shop": [(point.at, _decimal(point.shop_quantity)) for point in points],
    }
    _print_lines(f"Price at {seller}", prices, now, money)
    _print_lines(f"Stock at {seller}", stocks, now, lambda number: f"{number:,}")


def _print_lines(title: str, lines: Lines, now: datetime, word: Callable[[Decimal], str]) -> None:
    known = [value for line in lines.values() for _, value in line if value is not None]
    if not known:
        return
    say()
    say(f"{title} since {format_time(lines['supplier'][0][0], now)}", style="bold")
    least, most = min(known), max(known)
    for name, line in lines.items():
        last = next((value for _, value in reversed(line) if value is not None), None)
        if last is not None:
            say(f"  {name:<8} {_drawn(line, now, least, most)}  {word(last)}")
    say(f"  from {word(least)} to {word(most)}")


def _decimal(number: int | None) -> Decimal | None:
    return None if number is None else Decimal(number)


def _print_calls(calls: Sequence[RecentCall], now: datetime) -> None:
    """Print the calls that carried the part, if the caller may see them."""
    if not calls:
        return
    say()
    say("Calls that carried it, within two days", style="bold")
    rows = [
        (
            format_time(call.at, now),
            result(call.result),
            f"{call.seats_used} of {call.seats_paid}" if call.seats_paid else "",
            "" if call.duration_s is None else f"{call.duration_s:.1f} s",
        )
        for call in calls
    ]
    table(("left", "result", "seats", "took"), rows, right={2, 3})


def _drawn(
    line: Sequence[tuple[datetime, Decimal | None]], now: datetime, least: Decimal, most: Decimal
) -> str:
    """Return a row of blocks: in each column the price that stood at its end."""
    from headway.cli.sparkline import blocks

    marks = blocks()
    begin, span = line[0][0], now - line[0][0]
    drawn = []
    for column in range(1, CHART_COLUMNS + 1):
        until = begin + span * column / CHART_COLUMNS
        price = next((price for at, price in reversed(line) if at <= until), None)
        share = 0.0 if price is None else float((price - least) / (most - least or 1))
        drawn.append(" " if price is None else marks[1 + round(share * (len(marks) - 2))])
    return "".join(drawn)
