"""`headway status` and `headway explain`: what the line is doing, and why one part waits."""

from collections import Counter
from datetime import datetime
from typing import Annotated

import typer

from headway.cli.jobs import print_job
from headway.cli.output import AsJson, emit, facts, say, table
from headway.cli.target import Server, Target, open_client, open_target, seller_id
from headway.core.catalog.listings import MAIN, Sku, SupplierName
from headway.core.limits import forecast
from headway.core.reasons import describe_pause, format_duration, format_time
from headway.core.timetable.next_call import NextCall, Why
from headway.operations import deployment, jobs, listings
from headway.operations.listings import ListingExplanation
from headway.store.accounts.job_list import is_job_name
from headway.store.accounts.status import AccountsStatus
from headway.store.catalog.change_list import ObservedChange
from headway.store.catalog.listing_counts import ListingCounts
from headway.store.catalog.shop_status import ShopStatus
from headway.store.status import Overview, Spent
from headway.web.formatting import ago, bounded, decide, fate, lag, money, percent, result

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
    Why.NOTHING: "no listing wants one",
    Why.BREAKER: "the supplier does not answer",
    Why.TOLD_TO_WAIT: "calls are to wait",
    Why.PERMIT: "the supplier's limit allows the next one then",
    Why.SEATS: "every seat is due by then",
    Why.SLACK: "the first part due has waited long enough by then",
    Why.NOW: "nothing holds it back",
}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("status", epilog=STATUS_EXAMPLES)(status)
    app.command("explain", epilog=EXPLAIN_EXAMPLES)(explain)


def status(
    *,
    supplier: Annotated[
        str | None, typer.Option(help="Whose line; without, that of the settings.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show the next call, the budget and how fresh the shop is.

    Joins a demo that runs in another terminal; otherwise looks into the database at rest.
    """
    with open_target(server) as room:
        name = None if supplier is None else SupplierName(supplier)
        seen = room.client.call(deployment.status, name)
        if as_json:
            emit({"database": room.place, "overview": seen})
        else:
            _print_status(room, seen)


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
    """Say why a part or a job waits, until when, and its place.

    One answer for each seller that lists the part. Quote a part number that holds spaces. The job
    that pulls history is called seller/platform/kind/history.
    """
    with open_client(server) as client:
        if is_job_name(sku):
            job = client.call(jobs.job_of, sku)
            if as_json:
                emit({"now": client.now, "job": job})
            else:
                print_job(job, client.now)
            return
        found = client.call(listings.explain, Sku(sku), seller=seller_id(seller)).listings
        if as_json:
            emit({"sku": sku, "now": client.now, "listings": found})
            return
        for each in found:
            _print_explained(each, client.now)


def _print_explained(each: ListingExplanation, now: datetime) -> None:
    answer = each.explanation
    say(f"{each.sku} of {each.seller}: {answer.state}", style="bold")
    say(f"  {answer.sentence}")
    if answer.place is not None:
        say(f"  Place in the queue: {answer.place}.")
    say(f"  Last good read: {ago(each.last_good_read_at, now)}.")
    say(f"  Timetable ({each.policy}): {each.timetable}.")
    say(f"  {each.in_shop}")


def _print_status(room: Target, seen: Overview) -> None:
    supplier = "answers"
    if seen.breaker.is_open:
        since = seen.breaker.opened_at or seen.now
        supplier = f"does not answer since {format_time(since, seen.now)} ({seen.breaker.reason})"
    facts(
        [
            ("database", room.place),
            ("clock", f"{seen.now:%Y-%m-%d %H:%M:%S} UTC{_speed(room)}"),
            ("next call", _next_call(seen)),
            *(("paused", f"{each.what}, {describe_pause(each, seen.now)}") for each in seen.pauses),
            ("seats", _seats(seen.next_call)),
            ("budget", _budget(seen.spent)),
            ("supplier", supplier if seen.supplier == MAIN else f"{seen.supplier} {supplier}"),
            ("listings", _listings(seen.counts)),
            ("oldest read", ago(seen.oldest_read_at, seen.now)),
            ("push", _push(seen)),
            ("accounts", accounts_line(seen.accounts, seen.now)),
        ]
    )
    say()
    _print_changes(seen)
    say()
    _print_shops(seen)
    if seen.storefront.held:
        say()
        _print_held(seen)
    say()
    _print_calls(seen)


def _budget(spent: Spent) -> str:
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
    return "" if speed is None else f" (a demo, {speed:g} times faster than life)"


def _next_call(seen: Overview) -> str:
    coming = seen.next_call
    why = coming.pause_reason or WHY[coming.why]
    if coming.why is Why.TOLD_TO_WAIT and seen.gate.pause_reason:
        why = f"{why}: {seen.gate.pause_reason}"
    if coming.leaves_at is None:
        return f"none; {why}"
    if coming.leaves_at <= seen.now:
        return f"now; {why}"
    left = format_duration(coming.leaves_at - seen.now)
    return f"in {left} ({format_time(coming.leaves_at, seen.now)}); {why}"


def _seats(coming: NextCall) -> str:
    priorities = Counter(seat.priority for seat in coming.seats)
    named = ", ".join(f"{count} {priority}" for priority, count in priorities.items())
    return f"{len(coming.seats)} of {coming.seats_max}" + (f": {named}" if named else "")


def _push(seen: Overview) -> str:
    front = seen.storefront
    if not front.shops:
        return "no shop is connected; connect one with: headway connect SHOP --seller SELLER"
    written = front.written
    return (
        f"{written.count:,}{'+' if written.is_partial else ''} changes written in 24 h; from seen"
        f" to written {lag(written.p50_s)} in the middle, 95 % within {lag(written.p95_s)}"
    )


def accounts_line(lane: AccountsStatus, now: datetime) -> str:
    """Write how the accounts stand in one line."""
    if not lane.accounts_count:
        return "none; connect one with: headway connect SHOP --seller SELLER"
    lost = sum(not each.is_connected for each in lane.accounts)
    words = [
        f"{bounded(lane.accounts_count)} connected"
        if not lost
        else f"{bounded(lane.accounts_count)}, {lost} of them disconnected",
        f"{len(lane.running)} of {lane.running_max} jobs running, {bounded(lane.due_count)} due",
    ]
    if lane.dead_count:
        words.append(f"{bounded(lane.dead_count)} dead: headway jobs --status dead")
    words += [
        f"{each.platform} {each.used:,.0f} of {each.limit:,.0f} calls in 24 h,"
        f" {forecast.say(each.forecast, now)}"
        for each in lane.budgets
        if each.used or each.reserved
    ]
    return "; ".join(words)


def _print_changes(seen: Overview) -> None:
    rows = [
        (
            format_time(each.at, seen.now),
            each.sku,
            each.user_id,
            each.kind,
            _difference(each),
            _shop_price(each),
            _fate(each),
        )
        for each in seen.changes
    ]
    headings = ("when", "part", "seller", "what", "supplier", "shop price", "shop")
    table(headings, rows, title="Last changes")


def _difference(each: ObservedChange) -> str:
    parts = []
    if each.price_new is not None:
        parts.append(f"price {money(each.price_old)} to {money(each.price_new)}")
    if each.stock_new is not None:
        old = "none" if each.stock_old is None else f"{each.stock_old:,}"
        parts.append(f"stock {old} to {each.stock_new:,}")
    if each.note:
        parts.append(each.note)
    return ", ".join(parts)


def _shop_price(each: ObservedChange) -> str:
    if each.shop_new is None:
        return ""
    is_same = each.shop_old in {None, each.shop_new}
    return money(each.shop_new) if is_same else f"{money(each.shop_old)} to {money(each.shop_new)}"


def _fate(each: ObservedChange) -> str:
    if each.lag_s is not None:
        return f"{fate(each)} after {lag(each.lag_s)}"
    return f"{fate(each)}: {each.reason}" if each.reason and not each.note else fate(each)


def _print_shops(seen: Overview) -> None:
    rows = [
        (
            each.shop,
            each.user_id,
            f"{each.in_step:,} of {each.listed:,}",
            bounded(each.waiting),
            bounded(each.failing),
            bounded(each.held),
            ""
            if each.points_used is None
            else f"{each.points_used:,.0f} of {each.points_max:,.0f}",
            ago(each.pushed_at, seen.now),
            _shop_trouble(each),
        )
        for each in seen.storefront.shops
    ]
    table(
        ("shop", "seller", "in step", "waiting", "refused", "held", "points", "written", "trouble"),
        rows,
        title="Shops",
        empty="none; connect one with: headway connect SHOP --seller SELLER",
    )
    more = seen.storefront.shops_count - len(rows)
    if more:
        say(f"and {more:,} more: headway shops")


def _shop_trouble(each: ShopStatus) -> str:
    if not each.is_connected:
        return f"disconnected: {each.trouble}"
    return f"does not answer: {each.trouble}" if each.trouble else each.failing_reason


def _print_held(seen: Overview) -> None:
    held = seen.storefront.held
    rows = [
        (
            each.sku,
            each.user_id,
            f"{money(each.price_old)} to {money(each.price_new)}" if each.can_approve else "",
            each.reason,
            format_time(each.at, seen.now),
        )
        for each in held
    ]
    title = f"Held for a person: {bounded(seen.storefront.held_count)}"
    table(("part", "seller", "price", "held because", "since"), rows, title=title)
    ready = [each for each in held if each.can_approve]
    say(f"decide with: {decide((ready or held)[0])}")


def _print_calls(seen: Overview) -> None:
    rows = [
        (
            format_time(each.at, seen.now),
            result(each.result),
            f"{each.seats_used} of {each.seats_paid}" if each.seats_paid else "",
            "" if each.duration_s is None else f"{each.duration_s:.1f} s",
        )
        for each in seen.calls
    ]
    table(("when", "result", "seats", "took"), rows, title="Last calls")
