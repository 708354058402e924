"""The live view in a terminal: it redraws itself; without a terminal it prints plain lines."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headway.cli.console import CommandConsole
from headway.clock import Clock
from headway.core.catalog.change_outcomes import ChangeOutcome
from headway.core.reasons import format_duration
from headway.core.timetable.next_call import NextCall, NextCallReason
from headway.runners.worker_processes import WorkerProcesses
from headway.store.accounts.status import AccountsStatus
from headway.store.catalog.change_list import ObservedChange
from headway.store.status import Overview
from headway.web.formatting import (
    age,
    bounded,
    clock_time,
    countdown,
    fate,
    lag,
    money,
    percent,
    result,
    sentence,
)
from headway.web.live import Feed, Snapshot

FRAME_S = 0.25
# A demo is watched; the log of the real thing is read afterwards.
LINE_S = 5.0
LOG_S = 60.0
ACCENT, QUIET, BAD = "bold bright_blue", "bright_black", "red"
# Lines of the view that are always there; the tables share what is left.
FIXED_LINES = 16
END = "Ctrl-C ends it"
# A link that logs in is longer than an address, and takes two lines of a narrow terminal.
URL_CHARS = 40
# The rest, then the shop's price, then 1234 → 5678, then the outcome and its delay.
CHANGE_WIDTHS = (None, 9, 11, 8)
# The rest, then seats, then a time.
CALL_WIDTHS = (None, 12, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """What the terminal shows, the page's address, and the last lines of the workers, if any."""

    feed: Feed
    clock: Clock
    speed: float | None
    url: str
    crew: WorkerProcesses | None = None


def show(watch: LiveView, voice: CommandConsole, stop: threading.Event) -> None:
    """Show the line until stopped: a live view in a terminal, a line now and then elsewhere."""
    if voice.is_watched:
        _live(watch, voice.console, stop)
    else:
        _lines(watch, voice.say, stop)


def _live(watch: LiveView, console: Console, stop: threading.Event) -> None:
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not stop.wait(FRAME_S):
            snapshot = watch.feed.newest()
            live.update(draw(watch, snapshot, height=console.height), refresh=True)


def _lines(watch: LiveView, print_line: Callable[[str], None], stop: threading.Event) -> None:
    while True:
        print_line(say(watch.feed.newest()))
        if stop.wait(LOG_S if watch.speed is None else LINE_S):
            return


def say(snapshot: Snapshot) -> str:
    """Return the state of the line in one line."""
    overview = snapshot.overview
    if overview is None:
        return f"the database does not answer: {snapshot.error}"
    if overview.is_accounts_only:
        return f"{clock_time(overview.now)} | {_lane_words(overview.accounts)}"
    spent, counts = overview.spent, overview.counts
    last = overview.calls[0] if overview.calls else None
    words = [
        clock_time(overview.now),
        f"next call {_in(overview)}",
        f"{spent.day_count:,} of {spent.day_limit:,} calls in 24 h",
        f"{counts.fresh:,} fresh, {counts.stale:,} stale, {counts.unread:,} unread",
        f"{bounded(counts.failing)} failing, {bounded(counts.parked)} parked",
    ]
    if overview.storefront.shops:
        words.append(f"{overview.storefront.written.count:,} written to shops, {_held(overview)}")
    lane = overview.accounts
    if lane.accounts_count:
        words.append(_lane_words(lane))
    if last is not None:
        words.append(f"last call {clock_time(last.at)} {result(last.result)}")
    return " | ".join(words)


def _lane_words(lane: AccountsStatus) -> str:
    return (
        f"{bounded(lane.accounts_count)} accounts, {len(lane.running)} jobs running,"
        f" {bounded(lane.due_count)} due"
    )


def draw(watch: LiveView, snapshot: Snapshot, *, height: int) -> RenderableType:
    """Return the whole view, fit to the height of the terminal."""
    head = Table.grid(expand=True)
    head.add_column()
    head.add_column(justify="right")
    is_demo = watch.speed is not None
    pace = f"  demo, {watch.speed:g} times real time" if is_demo else ""
    title = Text.assemble(("Headway", "bold"), (pace, QUIET))
    head.add_row(title, Text(watch.url, style=f"{ACCENT} link {watch.url}", overflow="fold"))
    overview = snapshot.overview
    if overview is None:
        return Group(head, "", Text("The database does not answer", style=BAD), snapshot.error)
    now = watch.clock.now()
    fixed = FIXED_LINES + (overview.accounts.accounts_count > 0) + (len(watch.url) > URL_CHARS)
    crew_lines = watch.crew.lines if watch.crew is not None else ()
    rows = max(1, (height - fixed - len(crew_lines)) // 2)
    parts: list[RenderableType] = [
        head,
        Text(f"{'simulated time ' if is_demo else ''}{now:%H:%M:%S} UTC", style=QUIET),
        "",
    ]
    if overview.is_accounts_only:
        return Group(*parts, _figures(overview, crew_lines), "", Text(END, style=QUIET))
    parts += [
        _departure(overview, watch),
        _seats(overview.next_call, overview),
        "",
        _figures(overview, crew_lines),
        "",
        _changes(overview, rows),
        "",
        _calls(overview, rows),
        Text(END, style=QUIET),
    ]
    return Group(*parts)


def _in(overview: Overview) -> str:
    leaves_at = overview.next_call.leaves_at
    if leaves_at is None:
        return "none"
    return "now" if leaves_at <= overview.now else f"in {format_duration(leaves_at - overview.now)}"


def _departure(overview: Overview, watch: LiveView) -> Text:
    leaves_at = overview.next_call.leaves_at
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("Next call in ", style="bold")
    text.append(countdown(leaves_at, watch.clock.now()) if leaves_at else "-:--", style=ACCENT)
    if leaves_at:
        text.append(f"  at {clock_time(leaves_at)}")
    text.append(f"\n{sentence(overview.next_call.reason)}", style=QUIET)
    if overview.next_call.why is NextCallReason.RATE_LIMITED and overview.gate.pause_reason:
        text.append(f": {overview.gate.pause_reason}", style=QUIET)
    if overview.breaker.is_open:
        text.append(f" ({overview.breaker.reason})", style=BAD)
    return text


def _seats(coming: NextCall, overview: Overview) -> Text:
    """Draw the seats as a bar: taken by due parts, reserved for later ones, free."""
    due = sum(seat.due_at is not None and seat.due_at <= overview.now for seat in coming.seats)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append("Seats  ", style="bold")
    text.append("■ " * due, style=ACCENT)
    text.append("□ " * (len(coming.seats) - due), style=ACCENT)
    text.append("· " * (coming.seats_max - len(coming.seats)), style=QUIET)
    names = "  ".join(seat.sku or "" for seat in coming.seats[:3])
    text.append(f" {len(coming.seats)} of {coming.seats_max}, {due} due  ")
    text.append(names, style=QUIET)
    return text


def _figures(overview: Overview, crew_lines: Sequence[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True, min_width=len("Listings"))
    grid.add_column(no_wrap=True, overflow="ellipsis")
    if not overview.is_accounts_only:
        _add_catalog_rows(grid, overview)
    if overview.accounts.accounts_count:
        grid.add_row("Accounts", _accounts(overview))
    for name, text in crew_lines:
        grid.add_row(name.capitalize(), Text(text, style=QUIET))
    return grid


def _add_catalog_rows(grid: Table, overview: Overview) -> None:
    spent, counts = overview.spent, overview.counts
    grid.add_row(
        "Budget",
        f"{spent.day_count:,} of {spent.day_limit:,} calls in 24 h, {spent.minute_count} of"
        f" {spent.minute_limit} in 60 s; fill {percent(spent.fill)}",
    )
    rest = f", {counts.stale:,} stale, {counts.unread:,} unread, of {counts.total:,}"
    oldest = f"; oldest read {age(overview.oldest_read_at, overview.now)}"
    grid.add_row("Listings", Text.assemble((f"{counts.fresh:,} fresh", ACCENT), rest, oldest))
    trouble = f"{bounded(counts.failing)} failing, {bounded(counts.parked)} parked"
    style = BAD if counts.failing or counts.parked else ""
    late = f", {bounded(counts.overdue)} overdue"
    grid.add_row("Trouble", Text.assemble((trouble, style), late))
    grid.add_row("Shops", _shops(overview))


def _accounts(overview: Overview) -> Text:
    lane = overview.accounts
    lost = sum(not account.is_connected for account in lane.accounts)
    trouble = [f"{lost:,} disconnected, "] * (lost > 0)
    trouble += [f"{bounded(lane.dead_count)} jobs dead, "] * (lane.dead_count > 0)
    days = [
        f"; {budget.platform} {budget.used:,.0f} of {budget.limit:,.0f}" for budget in lane.budgets
    ]
    return Text.assemble(
        f"{bounded(lane.accounts_count)}, ",
        ("".join(trouble), BAD),
        f"{len(lane.running)} pulling, {bounded(lane.due_count)} due{''.join(days)}",
    )


def _shops(overview: Overview) -> Text:
    front = overview.storefront
    if not front.shops:
        return Text("none is connected: headway connect SHOP --seller SELLER", style=QUIET)
    off = sum(not shop.is_connected for shop in front.shops)
    refused = sum(shop.failing for shop in front.shops)
    trouble = [f"{off:,} disconnected, "] * (off > 0) + [f"{refused:,} refused, "] * (refused > 0)
    pace = f"{front.written.count:,} written in 24 h, 95 % within {lag(front.written.p95_s)}"
    return Text.assemble(
        f"{front.shops_count:,}, ", ("".join(trouble), BAD), f"{_held(overview)}; {pace}"
    )


def _held(overview: Overview) -> str:
    return f"{bounded(overview.storefront.held_count)} held"


def _changes(overview: Overview, rows: int) -> Table:
    table = _table("Last changes", CHANGE_WIDTHS, "price", "shop", "stock", "after")
    for change in overview.changes[:rows]:
        words = change.note or ("" if change.kind == "changed" else change.kind)
        table.add_row(
            Text(change.sku),
            _moved(change, "price") if change.price_new is not None else Text(words, style=QUIET),
            "" if change.shop_new is None else money(change.shop_new),
            _moved(change, "stock"),
            _fate(change),
        )
    if not overview.changes:
        table.add_row(Text("none yet", style=QUIET), "", "", "", "")
    return table


def _fate(change: ObservedChange) -> Text:
    if change.lag_s is not None:
        return Text(lag(change.lag_s), style=ACCENT)
    return Text(
        fate(change),
        style=BAD if change.fate in {ChangeOutcome.HELD, ChangeOutcome.REFUSED} else QUIET,
    )


def _calls(overview: Overview, rows: int) -> Table:
    table = _table("Last calls", CALL_WIDTHS, "result", "seats", "took")
    for call in overview.calls[:rows]:
        style = "default" if call.is_good or not call.is_over else BAD
        seats = f"{call.seats_used} of {call.seats_paid}" if call.seats_paid else ""
        took = "" if call.duration_s is None else f"{call.duration_s:.1f} s"
        words = Text(result(call.result), style=style, no_wrap=True, overflow="ellipsis")
        table.add_row(clock_time(call.at), words, seats, Text(took, style=QUIET))
    return table


def _table(title: str, widths: Sequence[int | None], *columns: str) -> Table:
    """Return a table; its second column takes the remaining width and is cut if necessary."""
    table = Table(box=None, expand=True, padding=(0, 1), pad_edge=False, header_style=QUIET)
    table.add_column(Text(title, style="bold"), no_wrap=True)
    for name, width in zip(columns, widths, strict=True):
        table.add_column(
            name,
            ratio=1 if width is None else None,
            min_width=width,
            justify="right",
            no_wrap=True,
            overflow="ellipsis",
        )
    return table


def _moved(change: ObservedChange, what: str) -> Text:
    old, new = (
        (change.price_old, change.price_new)
        if what == "price"
        else (change.stock_old, change.stock_new)
    )
    if new is None:
        return Text("")
    write = money if what == "price" else str
    if old is None:
        return Text(write(new))  # type: ignore[arg-type]  # one writer per kind
    return Text.assemble((f"{write(old)} → ", QUIET), (write(new), "bold"))  # type: ignore[arg-type]
