"""`headway simulate`: days of the real engine in minutes, every law checked after every event."""

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headway import config
from headway.cli.output import AsJson, emit, facts, say, table
from headway.clock import SystemClock
from headway.core.policies import POLICIES
from headway.errors import InvalidError
from headway.simulation.changes import read_changes
from headway.simulation.faults import KNOWN, Faults, parse_faults
from headway.simulation.lab import open_lab
from headway.simulation.report import figures, write_trace
from headway.simulation.scenario import Parts, Plan, Scenario
from headway.simulation.world import DAY_S, World
from headway.simulation.worlds import WORLDS

EXAMPLES = """Examples:

headway simulate --policy rolling --products 5000 --days 3 --seed 1

headway simulate --products 500 --fault outage:6h@10:00 --fault crash:1/h --json

headway simulate --days 3 --fault shop-lost-reply:5% --fault shop-stale:55@10:00

headway simulate --world bursty --products 5000 --days 8

headway simulate --changes recorded.csv --days 2 --trace calls.csv
"""
PRODUCTS = 500
PRODUCTS_MAX, DAYS_MAX, WORKERS_MAX, SELLERS_MAX = 1_000_000, 3650, 64, 5
LAW_NAMES = {
    "L1": "limit", "L2": "seats", "L3": "deadline", "L4": "isolation", "L5": "one owner",
    "L6": "nothing lost", "L7": "one effect", "L8": "blame", "L9": "no harm", "L10": "walls",
    "L11": "quota", "L12": "fairness", "L13": "reasons",
}  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate", epilog=EXAMPLES)(simulate)


def simulate(
    *,
    policy: Annotated[
        str, typer.Option(help=f"When a listing is due: {', '.join(POLICIES)}, or all.")
    ] = "rolling",
    products: Annotated[
        int | None, typer.Option(help=f"How many SKUs; {PRODUCTS} if not said.")
    ] = None,
    days: Annotated[float, typer.Option(help="How many days, or a part of one.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 1,
    world: Annotated[str, typer.Option(help=f"What happens: {', '.join(WORLDS)}.")] = "steady",
    fault: Annotated[
        list[str] | None, typer.Option(help=f"What goes wrong; repeatable. Known: {KNOWN}.")
    ] = None,
    changes: Annotated[
        Path | None, typer.Option(help="Replay this CSV t_min,sku,price,quantity,family.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write each seat to this CSV t_min,call,sku,ok.")
    ] = None,
    workers: Annotated[int, typer.Option(help="How many fetch at once.")] = 2,
    sellers: Annotated[int, typer.Option(help="How many; the second lists some SKUs too.")] = 1,
    database: Annotated[
        str | None, typer.Option(help="A PostgreSQL to make a throw-away database on.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the real engine through days of virtual time.

    Engine, store and limiter are the real ones; supplier, shops and clock are simulated, and the
    settings are the defaults. Freshness compares what the shops show with the supplier's truth.
    Every law is checked after every event; exit code 1 if one broke.
    """
    _assert_between("--products", PRODUCTS if products is None else products, 1, PRODUCTS_MAX)
    _assert_between("--days", days, 0.01, DAYS_MAX)
    _assert_between("--workers", workers, 1, WORKERS_MAX)
    _assert_between("--sellers", sellers, 1, SELLERS_MAX)
    policies = _policies(policy)
    drawn = _world(world, changes, products, days, seed)
    faults = parse_faults([*drawn.faults, *(fault or [])])
    faults.fates(list(drawn.start), seed=seed)
    if trace is not None:
        if len(policies) > 1:
            raise InvalidError("--trace holds one run; choose one --policy")
        _assert_writable(trace)
    plans = [
        Plan(
            world=drawn,
            policy=name,
            days=int(days) if days == int(days) else days,
            seed=seed,
            faults=faults,
            workers=workers,
            sellers=sellers,
        )
        for name in policies
    ]
    url = database or _configured_url()
    reports = [_run(plan, url, trace, as_json=as_json) for plan in plans]
    if as_json:
        emit(reports if policy == "all" else reports[0])
    _exit_if_broken(reports)


def _assert_between(option: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise InvalidError(f"{option} {value:g} is out of range; take {least:,} to {most:,}")


def _policies(policy: str) -> list[str]:
    if policy == "all":
        return list(POLICIES)
    if policy not in POLICIES:
        raise InvalidError(f"--policy {policy} is not known; known: {', '.join(POLICIES)}, all")
    return [policy]


def _world(name: str, changes: Path | None, products: int | None, days: float, seed: int) -> World:
    if name not in WORLDS:
        raise InvalidError(f"--world {name} is not known; known: {', '.join(WORLDS)}")
    if changes is None:
        return WORLDS[name](products=products or PRODUCTS, days=days, seed=seed)
    if name != "steady":
        raise InvalidError("--changes is a world of its own; leave --world out")
    world = read_changes(changes)
    if products is not None and products != len(world.start):
        raise InvalidError(
            f"--products {products} but {changes} holds {len(world.start)} SKUs; leave it out"
        )
    return world.until(days * DAY_S)


def _configured_url() -> str | None:
    url = config.load().database_url
    return url.get_secret_value() if url else None


def _assert_writable(trace: Path) -> None:
    try:
        trace.open("a", encoding="utf-8").close()
    except OSError as error:
        raise InvalidError(f"cannot write --trace {trace}: {error.strerror or error}") from None


def _exit_if_broken(reports: list[dict[str, Any]]) -> None:
    if any(count for report in reports for count in report["laws"].values()):
        raise typer.Exit(1)


def _run(
    plan: Plan,
    url: str | None,
    trace: Path | None,
    *,
    as_json: bool,
    parts: Parts | None = None,
) -> dict[str, Any]:
    wall = SystemClock()
    with _progress(plan) as progress, open_lab(url) as lab:
        began_s = wall.monotonic()
        scenario = Scenario(plan, lab.pool, lab.data_dir, parts)
        scenario.run(progress)
        real_seconds = wall.monotonic() - began_s
    report = figures(scenario, real_seconds=real_seconds)
    if trace is not None:
        write_trace(scenario, trace)
    if not as_json:
        _print(report, scenario)
    elif scenario.book.examples:
        for line in _broken_lines(scenario):
            print(line, file=sys.stderr)
    return report


@contextlib.contextmanager
def _progress(plan: Plan) -> Iterator[Callable[[float], None]]:
    """Show how far the run is, to a person only."""
    if not sys.stderr.isatty():
        yield lambda _at_s: None
        return
    columns = (
        TextColumn(f"{plan.policy}, {len(plan.world.start):,} SKUs"),
        BarColumn(),
        TextColumn("day {task.completed:.1f} of {task.total:g}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=plan.days)
        yield lambda at_s: bar.update(task, completed=at_s / DAY_S)


def _print(report: dict[str, Any], scenario: Scenario) -> None:
    say(
        f"{report['products']:,} SKUs under {report['policy']}, {report['days']:g} days of the"
        f" {report['world']} world, seed {report['seed']}",
        style="bold",
    )
    facts(_pairs(report))
    rows = [
        (law, LAW_NAMES[law], "broken" if count else "ok", f"{count:,} violations" if count else "")
        for law, count in report["laws"].items()
    ]
    rows += [(law, LAW_NAMES[law], "not in play", "") for law in report["laws_not_in_play"]]
    table(("law", "name", "verdict", "note"), rows)
    for line in _broken_lines(scenario):
        say(line, style="red")


def _pairs(report: dict[str, Any]) -> list[tuple[str, str]]:
    def minutes(value: float | None) -> str:
        return "none detected" if value is None else f"{value:,.0f} min"

    def seconds(value: float | None) -> str:
        return "nothing was pushed" if value is None else f"{value:,.1f} s"

    fill = report["fill"]
    injected = ", ".join(f"{kind} {count}" for kind, count in report["faults_injected"].items())
    seen = f"half in {minutes(report['detection_p50_min'])}, 95 % in"
    fates = (
        f"{report['pushed']:,} pushed, {report['superseded']:,} superseded, {report['lost']:,} lost"
    )
    shown = f"half in {seconds(report['push_p50_s'])}, 95 % in {seconds(report['push_p95_s'])}"
    shop_calls = f"{sum(report['shop_calls'].values()):,}, {report['shop_refusals']} refused"
    speed = f"{report['simulated_seconds_per_real_second']:,} simulated seconds a second"
    return [
        ("price calls", f"{report['calls']:,}, and {report['auth_calls']:,} for tokens"),
        ("fill", "no calls" if fill is None else f"{fill:.2%} of {report['seats_paid']:,} seats"),
        (
            "most calls in a minute",
            f"{report['max_calls_in_window']}, {report['refusals']} refused",
        ),
        ("freshness", f"{report['freshness']:.3%}"),
        ("staleness", f"{report['staleness_min_per_listing_day']:.1f} min per listing and day"),
        ("changes", f"{report['changes']:,}: {fates}; {report['held']:,} listings held"),
        ("changes seen", f"{seen} {minutes(report['detection_p95_min'])}"),
        ("seen to shown", shown),
        ("shop calls", f"{shop_calls}; {report['double_writes']:,} double writes"),
        ("worst age", f"{report['worst_age_h']:.2f} h"),
        ("parked", f"{report['parked']:,}; rescued {report['rescued']:,}"),
        ("faults injected", injected or "none"),
        ("real time", f"{report['real_seconds']:.1f} s; {speed}"),
    ]


def _broken_lines(scenario: Scenario) -> list[str]:
    if not scenario.book.examples:
        return []
    lines = [str(each) for each in scenario.book.examples]
    return [*lines, f"reproduce: {_command(scenario.plan, scenario.plan.faults)}"]


def _command(plan: Plan, faults: Faults) -> str:
    world = plan.world
    source = (
        ["--world", world.name, "--products", str(len(world.start))]
        if world.source is None
        else ["--changes", str(world.source)]
    )
    words = [
        "headway", "simulate", "--policy", plan.policy, *source, "--days", f"{plan.days:g}",
        "--seed", str(plan.seed), "--workers", str(plan.workers), "--sellers", str(plan.sellers),
        *(word for spec in faults.specs[len(world.faults) :] for word in ("--fault", spec)),
    ]  # fmt: skip
    return shlex.join(words)
