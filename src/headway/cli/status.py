"""`headway status` and `headway explain`: the state of the deployment, and why a part waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, facts, say, table
from headway.cli.target import Server, Target, open_client, open_target, seller_id
from headway.core.catalog.listings import MAIN, Sku, SupplierName
from headway.core.limits import forecast
from headway.core.reasons import describe_pause, format_duration, format_time
from headway.core.timetable.next_call import NextCallReason
from headway.web.formatting import (
    ago,
    bounded,
    decide,
    fate,
    lag,
    money,
    percent,
    result,
    waiting_reason,
)

if TYPE_CHECKING:
    from headway.core.monitoring.alerts import Alert
    from headway.core.timetable.next_call import NextCall
    from headway.operations.listings import ListingExplanation
    from headway.store.accounts.status import AccountsStatus
    from headway.store.catalog.change_list import ObservedChange
    from headway.store.catalog.listing_counts import ListingCounts
    from headway.store.catalog.shop_status import ShopStatus
    from headway.store.status import Overview, SupplierUsage

STATUS_EXAMPLES = """Examples:

headway status

headway status --supplier acme

headway status --json | jq .overview.counts
"""
EXPLAIN_EXAMPLES = """Examples:

headway explain "WF330523=7A"

headway explain "AN 960/10L" --seller acme

headway explain acme/etsy/orders
"""
WHY = {
    NextCallReason.NOTHING: "no parts are listed",
    NextCallReason.BREAKER: "the supplier is not responding",
    NextCallReason.RATE_LIMITED: "calls must wait",
    NextCallReason.PAUSED: "paused",
    NextCallReason.PACE: "calls are spaced to stay within HEADWAY_BUDGET_SHARE",
    NextCallReason.PERMIT: "waiting for the rate limit",
    NextCallReason.SEATS: "enough parts are due by then to fill the call",
    NextCallReason.SLACK: "the part that is due longest must not wait any longer",
    NextCallReason.NOW: "nothing holds it back",
    NextCallReason.WORTH: "no part is worth a call before then",
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("status", epilog=STATUS_EXAMPLES)(status)
    app.command("explain", epilog=EXPLAIN_EXAMPLES)(explain)


def status(
    *,
    supplier: Annotated[
        str | None, typer.Option(help="The supplier; by default the one in the settings.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show the next call, the budget, how fresh the shop is, and what is wrong.

    Shows the demo or server that runs in another terminal; otherwise the stored data.
    """
    from headway.operations import alerts, deployment

    with open_target(server) as room:
        name = None if supplier is None else SupplierName(supplier)
        overview = room.client.call(deployment.status, name)
        standing = room.client.call(alerts.alerts).alerts
        if as_json:
            emit({"database": room.place, "overview": overview, "alerts": standing})
        else:
            _print_status(room, overview)
            _print_alerts(standing)


def explain(
    sku: Annotated[
        str,
        typer.Argument(
            metavar="SKU|JOB",
            help="The supplier's part number; or a job's id or seller/platform/kind.",
        ),
    ],
    *,
    seller: Annotated[str | None, typer.Option(help="Only this seller's listing.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Explain why a part or a job waits, until when, and its place in the queue.

    One answer for each seller that lists the part. Quote a part number that contains spaces. The
    job that pulls history is called seller/platform/kind/history.
    """
    from headway.cli.jobs import print_job
    from headway.operations import jobs, listings
    from headway.store.accounts.job_list import is_job_name

    with open_client(server) as client:
        if is_job_name(sku):
            job = client.call(jobs.job_of, sku)
            if as_json:
                emit({"now": client.now, "job": job})
            else:
                print_job(job, client.now)
            return
        explanations = client.call(listings.explain, Sku(sku), seller=seller_id(seller)).listings
        if as_json:
            emit({"sku": sku, "now": client.now, "listings": explanations})
            return
        for listing in explanations:
            _print_explained(listing, client.now)


def _print_explained(listing: ListingExplanation, now: datetime) -> None:
    answer = listing.explanation
    say(f"{listing.sku} of {listing.seller}: {answer.state}", style="bold")
    say(f"  {answer.sentence}")
    if answer.place is not None:
        say(f"  Place in the queue: {answer.place}.")
    say(f"  Last good read: {ago(listing.last_good_read_at, now)}.")
    say(f"  Timetable ({listing.policy}): {listing.timetable}.")
    say(f"  {listing.in_shop}")


def _print_status(room: Target, overview: Overview) -> None:
    if overview.is_accounts_only:
        facts(
            [
                *_place(room, overview),
                ("supplier", "none is set up; only accounts are read"),
                ("accounts", accounts_line(overview.accounts, overview.now)),
            ]
        )
        return
    _print_catalog_status(room, overview)


def _place(room: Target, overview: Overview) -> list[tuple[str, str]]:
    """Return where this is, what time it is there, and what is paused."""
    return [
        ("database", room.place),
        ("clock", f"{overview.now:%Y-%m-%d %H:%M:%S} UTC{_speed(room)}"),
        *(
            ("paused", f"{pause.what}, {describe_pause(pause, overview.now)}")
            for pause in overview.pauses
        ),
    ]


def _print_catalog_status(room: Target, overview: Overview) -> None:
    supplier = "answers"
    if overview.breaker.is_open:
        since = overview.breaker.opened_at or overview.now
        supplier = (
            f"does not answer since {format_time(since, overview.now)} ({overview.breaker.reason})"
        )
    facts(
        [
            *_place(room, overview),
            ("next call", _next_call(overview)),
            ("seats", _seats(overview.next_call)),
            ("budget", _budget(overview.spent)),
            (
                "supplier",
                supplier if overview.supplier == MAIN else f"{overview.supplier} {supplier}",
            ),
            ("listings", _listings(overview.counts)),
            ("oldest read", ago(overview.oldest_read_at, overview.now)),
            ("push", _push(overview)),
            ("accounts", accounts_line(overview.accounts, overview.now)),
        ]
    )
    say()
    _print_changes(overview)
    say()
    _print_shops(overview)
    if overview.storefront.held:
        say()
        _print_held(overview)
    say()
    _print_calls(overview)


def _print_alerts(standing: Sequence[Alert]) -> None:
    """Print what is wrong, with the parts, accounts and records concerned."""
    if standing:
        say()
        rows = [(alert.severity, alert.sentence) for alert in standing]
        table(("severity", "what is wrong"), rows, title="Alerts")


def _budget(spent: SupplierUsage) -> str:
    return (
        f"{spent.minute_count} of {spent.minute_limit} calls in the last 60 s,"
        f" {spent.day_count:,} of {spent.day_limit:,} in 24 h; fill {percent(spent.fill)}"
    )


def _listings(counts: ListingCounts) -> str:
    about = "about " if counts.is_estimate else ""
    paused = f", {counts.paused:,} paused" if counts.paused else ""
    return (
        f"{about}{counts.total:,}: {counts.fresh:,} fresh, {counts.stale:,} stale,"
        f" {counts.unread:,} unread, {counts.parked:,} parked{paused};"
        f" {bounded(counts.overdue)} overdue, {bounded(counts.failing)} failing"
    )


def _speed(room: Target) -> str:
    speed = room.client.speed
    return "" if speed is None else f" (a demo, {speed:g} times faster than real time)"


def _next_call(overview: Overview) -> str:
    coming = overview.next_call
    why = coming.pause_reason or WHY[coming.why]
    if coming.why is NextCallReason.RATE_LIMITED and overview.gate.pause_reason:
        why = f"{why}: {overview.gate.pause_reason}"
    if coming.leaves_at is None:
        return f"none; {why}"
    if coming.leaves_at <= overview.now:
        return f"now; {why}"
    left = format_duration(coming.leaves_at - overview.now)
    return f"in {left} ({format_time(coming.leaves_at, overview.now)}); {why}"


def _seats(coming: NextCall) -> str:
    priorities = Counter(seat.priority for seat in coming.seats)
    named = ", ".join(f"{count} {priority}" for priority, count in priorities.items())
    return f"{len(coming.seats)} of {coming.seats_max}" + (f": {named}" if named else "")


def _push(overview: Overview) -> str:
    front = overview.storefront
    if not front.shops:
        return "no shop is connected; connect one with: headway connect SHOP --seller SELLER"
    written = front.written
    count = f"{written.count:,}{'+' if written.is_partial else ''} changes written in 24 h"
    if not written.count:
        return count
    return f"{count}; half within {lag(written.p50_s)}, 95 % within {lag(written.p95_s)}"


def accounts_line(lane: AccountsStatus, now: datetime) -> str:
    """Return the status of the accounts in one line."""
    if not lane.accounts_count:
        return "none; connect one with: headway connect SHOP --seller SELLER"
    lost = sum(not account.is_connected for account in lane.accounts)
    words = [
        f"{bounded(lane.accounts_count)} connected"
        if not lost
        else f"{bounded(lane.accounts_count)}, {lost} of them disconnected",
        f"{len(lane.running)} of {lane.running_max} jobs running, {bounded(lane.due_count)} due",
    ]
    if lane.dead_count:
        words.append(f"{bounded(lane.dead_count)} dead: headway jobs --status dead")
    words += [
        f"{budget.platform} {budget.used:,.0f} of {budget.limit:,.0f} calls in 24 h,"
        f" {forecast.forecast_text(budget.forecast, now)}"
        for budget in lane.budgets
        if budget.used or budget.reserved
    ]
    return "; ".join(words)


def _print_changes(overview: Overview) -> None:
    rows = [
        (
            format_time(change.at, overview.now),
            change.sku,
            change.seller,
            change.kind,
            _difference(change),
            _shop_price(change),
            _fate(change, overview.now),
        )
        for change in overview.changes
    ]
    headings = ("when", "part", "seller", "what", "supplier", "shop price", "shop")
    table(headings, rows, title="Last changes")


def _difference(change: ObservedChange) -> str:
    parts = []
    if change.price_new is not None:
        parts.append(f"price {money(change.price_old)} to {money(change.price_new)}")
    if change.stock_new is not None:
        old = "none" if change.stock_old is None else f"{change.stock_old:,}"
        parts.append(f"stock {old} to {change.stock_new:,}")
    if change.note:
        parts.append(change.note)
    return ", ".join(parts)


def _shop_price(change: ObservedChange) -> str:
    if change.shop_new is None:
        return ""
    is_same = change.shop_old in {None, change.shop_new}
    return (
        money(change.shop_new)
        if is_same
        else f"{money(change.shop_old)} to {money(change.shop_new)}"
    )


def _fate(change: ObservedChange, now: datetime) -> str:
    if change.lag_s is not None:
        return f"{fate(change)} after {lag(change.lag_s)}"
    why = "" if change.note else waiting_reason(change, now)
    return f"{fate(change)}: {why}" if why else fate(change)


def _print_shops(overview: Overview) -> None:
    rows = [
        (
            shop.shop,
            shop.seller,
            f"{shop.in_step:,} of {shop.listed:,}",
            bounded(shop.waiting),
            bounded(shop.failing),
            bounded(shop.held),
            ""
            if shop.points_used is None
            else f"{shop.points_used:,.0f} of {shop.points_max:,.0f}",
            ago(shop.pushed_at, overview.now),
            _shop_trouble(shop, overview.now),
        )
        for shop in overview.storefront.shops
    ]
    table(
        (
            "shop",
            "seller",
            "up to date",
            "waiting",
            "refused",
            "held",
            "points",
            "written",
            "trouble",
        ),
        rows,
        title="Shops",
        empty="none; connect one with: headway connect SHOP --seller SELLER",
    )
    more = overview.storefront.shops_count - len(rows)
    if more:
        say(f"and {more:,} more: headway shops")


def _shop_trouble(shop: ShopStatus, now: datetime) -> str:
    if not shop.is_connected:
        return f"disconnected: {shop.trouble}"
    if shop.waits_until is not None:
        return f"{shop.trouble} (next try {format_time(shop.waits_until, now)})"
    if shop.is_in_rehearsal:
        return f"in rehearsal, waiting for confirmation; see: headway rehearse {shop.seller}"
    return shop.failing_reason


def _print_held(overview: Overview) -> None:
    held = overview.storefront.held
    rows = [
        (
            change.sku,
            change.seller,
            f"{money(change.price_old)} to {money(change.price_new)}" if change.can_approve else "",
            change.reason,
            format_time(change.at, overview.now),
        )
        for change in held
    ]
    title = f"Held for review: {bounded(overview.storefront.held_count)}"
    table(("part", "seller", "price", "held because", "since"), rows, title=title)
    ready = [change for change in held if change.can_approve]
    say(f"decide with: {decide((ready or held)[0])}")


def _print_calls(overview: Overview) -> None:
    rows = [
        (
            format_time(call.at, overview.now),
            result(call.result),
            f"{call.seats_used} of {call.seats_paid}" if call.seats_paid else "",
            "" if call.duration_s is None else f"{call.duration_s:.1f} s",
        )
        for call in overview.calls
    ]
    table(("when", "result", "seats", "took"), rows, title="Last calls")
