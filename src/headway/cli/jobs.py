"""`headway jobs`, `quota` and `pull`: the account lane, in the order in which its jobs run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Client, Server, open_client, seller_id
from headway.core.accounts.jobs import DataKind, JobStatus, platform_name
from headway.core.catalog.listings import SellerId
from headway.core.limits import forecast
from headway.core.reasons import format_time
from headway.errors import ConflictError, NotFoundError
from headway.web.formatting import ago, number

if TYPE_CHECKING:
    from headway.store.accounts.job_list import JobView
    from headway.store.accounts.status import SellerView
    from headway.store.limits.quotas import Budget

JOBS_EXAMPLES = """Examples:

headway jobs

headway jobs --seller acme --platform etsy

headway jobs --status dead --json | jq '.jobs[].reason'
"""
QUOTA_EXAMPLES = """Examples:

headway quota

headway quota --json | jq '.quotas[].forecast.spent_at'
"""
PULL_EXAMPLES = """Examples:

headway pull acme

headway pull acme --platform etsy --kind orders
"""
LIMIT, LIMIT_MAX = 25, 500
SELLERS_SHOWN = 50
BAR_WIDTH = 30
# A full hour ends the hour before it.
TICK = timedelta(microseconds=1)
NO_JOB = "no job; connect an account with: headway connect"
Seller = Annotated[str | None, typer.Option(help="Only this seller's.")]
Platform = Annotated[str | None, typer.Option(help="Only of this platform.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("jobs", epilog=JOBS_EXAMPLES)(jobs)
    app.command("quota", epilog=QUOTA_EXAMPLES)(quota)
    app.command("pull", epilog=PULL_EXAMPLES)(pull)


def jobs(
    *,
    seller: Seller = None,
    platform: Platform = None,
    status: Annotated[JobStatus | None, typer.Option(help="Only those in this state.")] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=LIMIT_MAX, help="How many to show at most.")
    ] = LIMIT,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show the next jobs in order, and what blocks each of them.

    Due jobs come first, by score and waiting time; then the others, by due time.
    """
    from headway.operations import jobs as job_operations

    with open_client(server) as client:
        page = client.call(
            job_operations.jobs,
            seller=seller_id(seller),
            platform=None if platform is None else platform_name(platform),
            status=status,
            limit=limit,
        )
        shown, now = page.jobs, client.now
        if as_json:
            emit({"now": now, "jobs": shown})
            return
        is_filtered = seller is not None or platform is not None or status is not None
        _print_jobs(shown, now, empty="no such job; see: headway jobs" if is_filtered else NO_JOB)
        if len(shown) == limit:
            say(f"the first {limit}; more with --limit")


def quota(*, server: Server = None, as_json: AsJson = False) -> None:
    """Show how much of each platform's daily quota is used, by hour, with a forecast.

    Also shows how many of the month's orders each seller has used.
    """
    from headway.operations import accounts

    with open_client(server) as client:
        budgets = client.call(accounts.quotas).quotas
        sellers = client.call(accounts.accounts, limit=SELLERS_SHOWN).sellers
        now = client.now
        if as_json:
            quotas = [_facts(budget, now) for budget in budgets]
            emit({"now": now, "quotas": quotas, "sellers": sellers})
            return
        for budget in budgets:
            _print_budget(budget, now)
        say()
        _print_sellers(sellers, now)


def pull(
    seller: Annotated[str, typer.Argument(help="The seller.")],
    *,
    platform: Platform = None,
    kind: Annotated[DataKind | None, typer.Option(help="Only this kind of data.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Make a seller's jobs due now.

    They still wait for their place in the queue, the budget and the shop. Jobs that run, are dead
    or belong to a disconnected account are not changed; each line shows the reason. Exit code 1 if
    none waits.
    """
    from headway.operations import jobs as job_operations

    with open_client(server) as client:
        made: set[str] = set()
        for job in _of_kind(client, SellerId(seller), platform, kind):
            with suppress(ConflictError):
                made.add(client.call(job_operations.run_job, job.id).id)
        after = _of_kind(client, SellerId(seller), platform, kind)
        if as_json:
            emit({"now": client.now, "made_due": sorted(made), "jobs": after})
        else:
            _print_jobs(after, client.now)
            say(f"{len(made)} of {len(after)} made due")
        if not made:
            raise typer.Exit(1)


def _of_kind(
    client: Client, seller: SellerId, platform: str | None, kind: DataKind | None
) -> list[JobView]:
    """Return a seller's jobs of one kind; raises NotFoundError if there are none."""
    from headway.operations import jobs as job_operations

    named = None if platform is None else platform_name(platform)
    page = client.call(job_operations.jobs, seller=seller, platform=named, limit=LIMIT_MAX)
    rows = [job for job in page.jobs if kind in {None, job.kind}]
    if not rows:
        where = f" on {platform}" if platform else ""
        what = f" of {kind}" if kind else ""
        raise NotFoundError(f"{seller} has no job{what}{where}; see: headway shops")
    return rows


def print_job(job: JobView, now: datetime) -> None:
    """Print one job with its reasons, as `explain` does."""
    say(f"{job.name}: {job.state}", style="bold")
    say(f"  {job.reason}")
    if job.place is not None:
        say(f"  Place in the queue: {job.place:,}.")
    waited = "" if job.aged_score == job.score else f", {job.aged_score:g} with its waiting"
    say(f"  Score: {job.score} ({job.tier}, {job.type}){waited}.")
    say(f"  Last done: {ago(job.completed_at, now)}; {job.calls_total:,} calls in all.")
    if job.last_error:
        say(f"  Last error: {job.last_error}.")
    say(f"  Id: {job.id}")


def _print_jobs(views: Sequence[JobView], now: datetime, *, empty: str = NO_JOB) -> None:
    rows = [
        (
            "" if job.place is None else f"{job.place:,}",
            job.name,
            job.tier,
            f"{job.aged_score:g}",
            job.status,
            "" if job.due_at is None else format_time(job.due_at, now),
            job.reason,
        )
        for job in views
    ]
    headings = ("place", "job", "tier", "score", "status", "due", "why")
    table(headings, rows, empty=empty, right={0, 3})


def _print_budget(budget: Budget, now: datetime) -> None:
    share = min(1.0, (budget.used + budget.reserved) / budget.limit)
    bar = "█" * round(share * BAR_WIDTH)
    say(f"{budget.platform}  {bar:░<{BAR_WIDTH}}  {share:.0%}", style="bold")
    say(
        f"  {number(budget.used)} of {number(budget.limit)} calls used in 24 h,"
        f" {number(budget.reserved)} reserved, {number(budget.left)} left,"
        f" of these {number(budget.left_to_paid)} to sellers who pay"
    )
    if budget.stretched:
        say(f"  more is wanted than the day has, so intervals are longer: {budget.stretched}")
    if budget.paused_until is not None:
        say(f"  paused until {format_time(budget.paused_until, now)}: {budget.pause_reason}")
    say(f"  forecast: {forecast.forecast_text(budget.forecast, now)}")
    say()
    _print_curve(budget)


def _print_curve(budget: Budget) -> None:
    """Print the rolling sum by hour, with the calls up to then: as it was, then the forecast."""
    past = [(point.at, point.used, "") for point in budget.past]
    coming = [(point.at, point.used, "expected") for point in budget.forecast.points[1:]]
    by_hour = {use.hour: use.used for use in budget.hours}
    first = next((n for n, (_, used, _) in enumerate(past) if used), len(past) - 1)
    rows = [
        (
            f"{at:%d %b %H:%M}",
            "" if word else number(by_hour.get(forecast.hour_of(at - TICK), 0)),
            number(used),
            "█" * round(min(1.0, used / budget.limit) * BAR_WIDTH),
            word,
        )
        for at, used, word in [*past[first:], *coming]
    ]
    table(("until", "calls", "in 24 h", "", ""), rows, right={1, 2})


def _print_sellers(sellers: Sequence[SellerView], now: datetime) -> None:
    rows = [
        (
            seller.seller,
            seller.tier,
            f"{seller.orders:,} of {seller.orders_max:,}",
            format_time(seller.resets_at, now),
        )
        for seller in sellers
    ]
    table(
        ("seller", "tier", "orders of the month", "resets at"),
        rows,
        title="Orders of the month",
        empty="no account is connected",
    )


def _facts(budget: Budget, now: datetime) -> dict[str, object]:
    return {
        "platform": budget.platform,
        "limit": budget.limit,
        "used": budget.used,
        "reserved": budget.reserved,
        "left": budget.left,
        "left_to_paid": budget.left_to_paid,
        "stretch": dict(budget.stretch),
        "paused_until": budget.paused_until,
        "hours": budget.hours,
        "past": budget.past,
        "forecast": budget.forecast,
        "sentence": forecast.forecast_text(budget.forecast, now),
    }
