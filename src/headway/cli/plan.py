"""`headway plan`: does a catalog fit, how old will data be, what breaks first, what helps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, facts, plain, say, table
from headway.cli.target import Server, server_of
from headway.core.accounts.jobs import Tier
from headway.core.runs import RunKind
from headway.core.timetable.capacity import ADAPTIVE, Capacity, Throughput, weigh_up
from headway.core.timetable.policies import POLICIES
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.config import Settings
    from headway.core.timetable.capacity import Break, Expected, Growth

EXAMPLES = """Examples:

headway plan --products 5000

headway plan --products 5000 --add 1000

headway plan --sellers 10000 --tier starter

headway plan --products 30000 --policy adaptive --limit 4 --json
"""
DAILY = [policy for policy in POLICIES.values() if not policy.is_eager]
KNOWN = [*(policy.name for policy in DAILY), ADAPTIVE]
PRODUCTS_MAX, LIMIT_MIN, LIMIT_MAX = 10_000_000, 0.1, 1000
SELLERS_MAX = 1_000_000
DIGITS = 4
NO_DATABASE = "there is no database yet; say how many there will be: --products 5000"
NOTES = (
    "calls, retries: a day; limit, permitted: share of them; typical, worst: age;",
    "stale: minutes of a day. For parts of which 5 % change a day, as an estimate.",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan", epilog=EXAMPLES)(plan)


def plan(
    *,
    products: Annotated[
        int | None, typer.Option(help="How many SKUs; by default the number in the database.")
    ] = None,
    add: Annotated[int, typer.Option(help="How many more SKUs you plan to add.")] = 0,
    policy: Annotated[
        str | None, typer.Option(help=f"Only this policy: {', '.join(KNOWN)}.")
    ] = None,
    limit: Annotated[
        float | None, typer.Option(help="Supplier calls a minute, instead of the setting.")
    ] = None,
    sellers: Annotated[
        int | None,
        typer.Option(help="Instead: how many more sellers fit into the platforms' daily quotas."),
    ] = None,
    tier: Annotated[Tier, typer.Option(help="With --sellers: what they pay for.")] = Tier.FREE,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Estimate whether a catalog fits the supplier's limit, and how old its data will be.

    Calls are counted as the limiter permits them. Ages and staleness are estimates, for parts of
    which 5 % change a day; `headway simulate` runs the engine itself.
    """
    from pydantic import TypeAdapter

    from headway import config
    from headway.cli.remote_runs_client import run_elsewhere

    if sellers is not None:
        _plan_sellers(sellers, tier, server, as_json=as_json)
        return
    settings = config.load()
    if policy is not None and policy not in KNOWN:
        raise InvalidError(f"--policy {policy} is not known; known: {', '.join(KNOWN)}")
    throughput, url = _throughput(settings, limit), server_of(server, settings)
    count = _count_products(settings) if products is None and not url else products
    if count is not None and not 1 <= count <= PRODUCTS_MAX:
        raise InvalidError(f"--products {count} is out of range; take 1 to {PRODUCTS_MAX:,}")
    if not 0 <= add <= PRODUCTS_MAX:
        raise InvalidError(f"--add {add} is out of range; take 0 to {PRODUCTS_MAX:,}")
    if url:
        options = {"products": count, "add": add, "policy": policy, "limit": limit}
        parameters = {name: value for name, value in options.items() if value is not None}
        answer: object = run_elsewhere(url, RunKind.PLAN, parameters).result
    else:
        assert count is not None, "it is counted where it is not given"
        answer = _brief(weigh_up(count, throughput, DAILY, add=add), policy)
    if as_json:
        emit(answer)
    else:  # the text output uses the same numbers, wherever they were computed
        _print(TypeAdapter(Capacity).validate_python(answer), policy)


def _plan_sellers(sellers: int, tier: Tier, server: str | None, *, as_json: bool) -> None:
    """Print what that many more sellers mean for each platform that has a day."""
    from headway.cli.target import open_client
    from headway.operations.accounts import plan_sellers

    if not 1 <= sellers <= SELLERS_MAX:
        raise InvalidError(f"--sellers {sellers} is out of range; take 1 to {SELLERS_MAX:,}")
    with open_client(server) as client:
        answer = client.call(plan_sellers, sellers=sellers, tier=tier)
    if as_json:
        emit(answer)
        return
    for found in answer.platforms:
        say(f"{sellers:,} more {tier} sellers on {found.platform.capitalize()}", style="bold")
        stretch = f"{found.stretch:.1f} times" if found.stretch > 1 else "as they are"
        facts(
            [
                ("the day", f"{found.limit:,.0f} calls; present sellers need {found.wanted:,.0f}"),
                ("each seller", f"{found.calls_per_seller:,.0f} calls a day"),
                ("fit", f"{found.fits:,} more at their intervals"),
                ("", f"{found.fits_stretched:,} more with intervals stretched by up to 16 h"),
                ("intervals then", stretch),
                ("first runs", f"{found.first_calls:,.0f} calls, {found.days:,.1f} days"),
            ]
        )
    if not answer.platforms:
        say("No platform with a daily quota is set up.")


def _throughput(settings: Settings, limit: float | None) -> Throughput:
    usual = Throughput(
        calls_per_min=settings.rate_limit,
        day_limit=settings.boeing_day_limit,
        gap_s=settings.rate_gap_s,
        seats=settings.batch_size,
        budget_share=settings.budget_share,
        seat_value_min=settings.seat_value_s / 60,
    )
    if limit is None:
        return usual
    if not LIMIT_MIN <= limit <= LIMIT_MAX:
        raise InvalidError(
            f"--limit {limit:g} is out of range; take {LIMIT_MIN:g} to {LIMIT_MAX:,} calls a minute"
        )
    return usual.faster(limit / usual.calls_per_min)


def _count_products(settings: Settings) -> int:
    """Count in the live database, without making one."""
    from headway.cli.session import has_database, open_session
    from headway.operations.runs import NONE_LISTED

    is_there = has_database(settings)
    count = 0
    if is_there:
        with open_session(settings.model_copy(update={"server": ""}), creates=False) as session:
            count = session.app.listings.count_skus()
    if not count:
        raise InvalidError(NONE_LISTED if is_there else NO_DATABASE)
    return count


def _chosen(expected: tuple[Expected, ...], policy: str | None) -> list[Expected]:
    return [expectation for expectation in expected if policy in {None, expectation.policy}]


def _breaks(answer: Capacity, policy: str | None) -> list[Break]:
    return [
        break_point
        for break_point in answer.breaks
        if policy is None or break_point.policy in {None, policy}
    ]


def _brief(answer: Capacity, policy: str | None) -> object:
    """Return the answer as JSON has it: the chosen policy only, numbers of readable length."""
    growth = answer.growth
    if growth is not None:
        growth = replace(growth, expected=tuple(_chosen(growth.expected, policy)))
    expected = tuple(_chosen(answer.expected, policy))
    breaks = tuple(_breaks(answer, policy))
    return _rounded(plain(replace(answer, expected=expected, growth=growth, breaks=breaks)))


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def _print(answer: Capacity, policy: str | None) -> None:
    unfit = [
        expectation.policy
        for expectation in _chosen(answer.expected, policy)
        if not expectation.fits
    ]
    verdict = "does not fit" if (policy and unfit) or not answer.fits else "fits"
    if unfit and verdict == "fits":
        verdict += f", but not under {', '.join(unfit)}"
    pace = f"{answer.calls_per_min:g} call{'' if answer.calls_per_min == 1 else 's'} a minute"
    say(f"{_products(answer.products)} at {pace}: {verdict}", style="bold")
    facts(_pairs(answer))
    say()
    _print_expected("How old data will be", _chosen(answer.expected, policy))
    for note in NOTES:
        say(note, style="dim")
    if answer.growth is not None:
        say()
        _print_growth(answer, answer.growth, policy)
    say()
    rows = [
        (
            f"{break_point.products:,}",
            "past" if break_point.products < answer.products else "",
            break_point.what,
        )
        for break_point in _breaks(answer, policy)
    ]
    table(("beyond", "", "what happens"), rows, title="What breaks first as it grows")
    say()
    _print_faster(answer)


def _pairs(answer: Capacity) -> list[tuple[str, str]]:
    left = answer.headroom
    calls = (
        f"{answer.price_calls_per_day:,.0f} a day for prices, {answer.permitted_share:.1%} of the"
        f" limit's {answer.limit_per_day:,.0f}; the rest is lost to replies of"
        f" {answer.response_s:g} s and tokens"
    )
    spare = (
        f"{left.spare_calls_per_day:,.0f} calls a day if each is read once;"
        f" {int(left.failing_share_max * 100)}% of calls may fail"
    )
    if left.catch_up_h is None:
        outage = "never caught up with: no call is spare"
    else:
        outage = f"caught up with in {_hours(left.catch_up_h)}"
        kept = "keeps" if left.keeps_promise_through_outage else "cannot keep"
        outage += f"; adaptive {kept} its 24 h through it"
    daily = answer.once_a_day
    once_a_day = (
        f"{daily.slots} of 24 slots, {daily.per_hour:,.1f} parts an hour,"
        f" {daily.calls_per_day:,} calls a day, {daily.limit_share:.1%} of the limit"
    )
    return [
        ("read once a day", once_a_day),
        ("permitted", calls),
        ("room for", f"{answer.products_max:,} products read once a day"),
        ("headroom", spare),
        (f"{left.outage_h:g} h outage", outage),
    ]


def _print_expected(title: str, expected: list[Expected]) -> None:
    rows = [
        (
            expectation.policy,
            "yes" if expectation.fits else "no",
            f"{expectation.calls_per_day:,.0f}",
            f"{expectation.limit_share:.1%}",
            f"{expectation.permitted_share:.1%}",
            _hours(expectation.age_typical_h),
            _hours(expectation.age_worst_h),
            f"{expectation.stale_min_per_day:,.1f} min",
            "any time"
            if expectation.retry_seats_per_day is None
            else f"{expectation.retry_seats_per_day:,}",
        )
        for expectation in expected
    ]
    headings = (
        "policy", "fits", "calls", "limit", "permitted", "typical", "worst", "stale", "retries",
    )  # fmt: skip
    table(headings, rows, title=title, right=range(2, len(headings)))


def _print_growth(answer: Capacity, growth: Growth, policy: str | None) -> None:
    after = answer.products + growth.add
    if growth.onboarding_h is None:
        read = "never all read, for the others leave no seat"
    else:
        read = f"each read once within {_hours(growth.onboarding_h)}"
        read += ", the others kept up" if growth.fits else ""
    verdict = "fits" if growth.fits else "does not fit"
    say(f"{growth.add:,} more: {verdict}; {read}", style="bold")
    pairs = zip(_chosen(answer.expected, policy), _chosen(growth.expected, policy), strict=True)
    rows = [
        (
            before.policy,
            f"{before.permitted_share:.1%} → {then.permitted_share:.1%}",
            f"{_hours(before.age_worst_h)} → {_hours(then.age_worst_h)}",
            f"{before.stale_min_per_day:,.1f} → {then.stale_min_per_day:,.1f} min",
            "yes" if then.fits else "no",
        )
        for before, then in pairs
    ]
    headings = ("policy", "of the permitted", "worst age", "stale a day", "fits")
    table(headings, rows, title=f"{answer.products:,} → {_products(after)}", right=range(1, 4))


def _print_faster(answer: Capacity) -> None:
    rows = [
        (
            f"{option.calls_per_min:g}",
            f"{option.price_calls_per_day:,.0f}",
            f"{option.limit_share:.1%}",
            f"{option.products_max:,}",
            f"{option.guard_ceiling:,}",
            _hours(option.adaptive.age_typical_h),
            f"{option.adaptive.stale_min_per_day:,.1f} min",
        )
        for option in answer.faster
    ]
    headings = (
        "a minute", "calls a day", "of limit", "room for", "with reserve", "age", "stale a day",
    )  # fmt: skip
    title = "Effect of a higher limit: age and staleness under adaptive"
    table(headings, rows, title=title, right=range(len(headings)))


def _products(count: int) -> str:
    return f"{count:,} product{'' if count == 1 else 's'}"


def _hours(hours: float) -> str:
    return f"{hours:,.1f} h" if hours >= 1 else f"{hours * 60:,.0f} min"
