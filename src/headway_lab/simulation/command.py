"""`headway simulate`: days of the real engine in minutes, every law checked after every event."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headway.cli.output import AsJson, emit, say
from headway.cli.progress import tell_share
from headway.cli.target import Server, server_of
from headway.clock import SystemClock
from headway.core.runs import RunKind
from headway.core.timetable.capacity import ADAPTIVE
from headway.core.timetable.policies import POLICIES
from headway.errors import InvalidError
from headway_lab.simulation.known_faults import ACCOUNT_FAULTS, CATALOG_FAULTS
from headway_lab.simulation.worlds import WORLDS

if TYPE_CHECKING:
    from headway_lab.simulation.accounts.scenario import AccountPlan
    from headway_lab.simulation.faults import Faults
    from headway_lab.simulation.scenario import Parts, Plan, Scenario
    from headway_lab.simulation.world import World

EXAMPLES = """Examples:

headway simulate --policy rolling --products 5000 --days 3 --seed 1

headway simulate --policy all --products 5000 --days 14 --seed 7 --plot policies.svg

headway simulate --products 500 --fault outage:6h@10:00 --fault crash:1/h --json

headway simulate --days 3 --fault shop-lost-reply:5% --fault shop-stale:55@10:00

headway simulate --days 0.2 --fault outage:30m@01:00 --watch

headway simulate --world bursty --products 5000 --days 8

headway simulate --changes recorded.csv --days 2 --trace calls.csv

headway simulate --lane account --sellers 200 --days 7 --fault crash:1/h --json
"""
LANES = ("catalog", "account")
ProgressForm = Literal["bar", "json"]
PRODUCTS, SELLERS = 500, {"catalog": 1, "account": 20}
PRODUCTS_MAX, DAYS_MAX, WORKERS_MAX = 1_000_000, 3650, 64
SELLERS_MAX = {"catalog": 5, "account": 5000}
# What belongs to the catalog lane alone.
CATALOG_ONLY = ("policy", "products", "world", "changes", "trace", "plot")
# Options that are sent to a server; files stay on this machine.
TRAVELS = (
    "lane", "policy", "products", "days", "seed", "world", "fault", "sellers", "workers", "watch",
)  # fmt: skip
Shown = Annotated[
    ProgressForm, typer.Option(help='bar for a person; or json: {"progress": 0.5} on stderr.')
]
Watched = Annotated[
    bool, typer.Option("--watch", help="Evaluate alerts each minute and list them; takes longer.")
]
WorkerCount = Annotated[
    int | None,
    typer.Option(help="How many workers fetch or pull at once; by default as many as needed."),
]
SellerCount = Annotated[
    int | None, typer.Option(help="How many sellers; default 1, or 20 in the account lane.")
]
FAULT_HELP = (
    f"What goes wrong; repeatable. Known: {CATALOG_FAULTS}. In the account lane: {ACCOUNT_FAULTS}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The report of a run, and the lines about the laws that it broke."""

    report: dict[str, Any]
    broken: tuple[str, ...]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate", epilog=EXAMPLES)(simulate)


def simulate(
    ctx: typer.Context,
    *,
    lane: Annotated[str, typer.Option(help=f"Which lane: {' or '.join(LANES)}.")] = "catalog",
    policy: Annotated[
        str, typer.Option(help=f"When a listing is due: {', '.join(POLICIES)}, or all.")
    ] = ADAPTIVE,
    products: Annotated[
        int | None, typer.Option(help=f"How many SKUs; default {PRODUCTS}.")
    ] = None,
    days: Annotated[float, typer.Option(help="How many days, or a part of one.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 1,
    world: Annotated[str, typer.Option(help=f"What happens: {', '.join(WORLDS)}.")] = "steady",
    fault: Annotated[list[str] | None, typer.Option(help=FAULT_HELP)] = None,
    changes: Annotated[
        Path | None, typer.Option(help="Replay this CSV t_min,sku,price,quantity,family.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write each seat to this CSV t_min,call,sku,ok.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the chart to this .svg file.")] = None,
    workers: WorkerCount = None,
    sellers: SellerCount = None,
    watch: Watched = False,
    database: Annotated[
        str | None, typer.Option(help="A PostgreSQL server for a throw-away database.")
    ] = None,
    progress: Shown = "bar",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Run the real engine through days of virtual time.

    Engine, store and limiter are the real ones; supplier, shops and clock are simulated, and the
    settings are the defaults. Freshness compares what the shops show with the supplier's data.
    Every law is checked after every event; the exit code is 1 if one broke. With --policy all, each
    policy runs through the same world and all are shown side by side. With --lane account, sellers'
    orders are pulled from simulated platforms and the tables are compared with the platforms' data.
    With --watch, alerts are evaluated each minute and listed. With --server, the run takes place
    there, within the server's limits; Ctrl-C cancels it.
    """
    from headway import config
    from headway.cli.remote_runs_client import refuse_files
    from headway_lab.simulation.scenario import Plan

    _assert_lane(ctx, lane)
    sellers = SELLERS[lane] if sellers is None else sellers
    _assert_sizes(products, days, workers)
    _assert_between("--sellers", sellers, 1, SELLERS_MAX[lane])
    if url := server_of(server, config.load()):
        refuse_files(url, changes=changes, trace=trace, database=database)
        _assert_writable(None, plot)
        outcomes = _run_elsewhere(ctx, url, json_progress=progress == "json")
        return _conclude(outcomes, is_all=policy == "all", plot=plot, as_json=as_json)
    if lane == "account":
        plan = _account_plan(sellers, days, seed, fault or [], workers, is_watched=watch)
        outcome = _run_accounts(plan, database, json_progress=progress == "json")
        return _conclude([outcome], as_json=as_json)
    if trace is not None and policy == "all":
        raise InvalidError("--trace holds one run; choose one --policy")
    drawn = _world(world, changes, products, days, seed)
    watched = Plan(world=drawn, sellers=sellers, is_watched=watch)
    plans = _plans(policy, watched, days, seed, fault, workers=workers)
    _assert_writable(trace, plot)
    outcomes = _run_all(
        plans, database or _configured_url(), trace, json_progress=progress == "json"
    )
    return _conclude(outcomes, is_all=policy == "all", plot=plot, as_json=as_json)


def _run_accounts(plan: AccountPlan, database: str | None, *, json_progress: bool) -> RunOutcome:
    from headway_lab.simulation.account_command import run_accounts

    report, broken = run_accounts(plan, database or _configured_url(), json_progress=json_progress)
    return RunOutcome(report=report, broken=broken)


def _conclude(
    outcomes: Sequence[RunOutcome],
    *,
    is_all: bool = False,
    plot: Path | None = None,
    as_json: bool,
) -> None:
    """Show the reports, draw the chart, and exit with the matching code."""
    from headway_lab.charts.chart import chart_of
    from headway_lab.charts.svg import write_plot

    reports = [outcome.report for outcome in outcomes]
    _show(reports if is_all else reports[0], as_json=as_json)
    if plot is not None:
        write_plot(chart_of(reports), plot)
    _exit_if_broken(outcomes, as_json=as_json)


def _run_elsewhere(ctx: typer.Context, url: str, *, json_progress: bool) -> list[RunOutcome]:
    """Run on a server with the options that were set; it has the same defaults."""
    from headway.cli.remote_runs_client import run_elsewhere
    from headway_lab.simulation.results import broken_laws

    options = {name: ctx.params[name] for name in TRAVELS if _is_set(ctx, name)}
    request = {("faults" if name == "fault" else name): value for name, value in options.items()}
    run = run_elsewhere(url, RunKind.SIMULATE, request, tells=json_progress)
    reports = run.result if isinstance(run.result, list) else [run.result or {}]
    broken = tuple(run.message.splitlines()) if any(map(broken_laws, reports)) else ()
    first, *others = reports
    return [
        RunOutcome(report=first, broken=broken),
        *(RunOutcome(report=other, broken=()) for other in others),
    ]


def _assert_lane(ctx: typer.Context, lane: str) -> None:
    """Raise if the lane is unknown, or an option does not apply to it."""
    if lane not in LANES:
        raise InvalidError(f"--lane {lane} is not known; known: {', '.join(LANES)}")
    options = [name for name in CATALOG_ONLY if _is_set(ctx, name)]
    if lane == "account" and options:
        raise InvalidError(f"--{options[0]} belongs to the catalog lane; leave it out")


def _plans(
    policy: str,
    plan: Plan,
    days: float,
    seed: int,
    fault: list[str] | None,
    *,
    workers: int | None,
) -> list[Plan]:
    from headway_lab.simulation.faults import parse_faults

    faults = parse_faults([*plan.world.faults, *(fault or [])])
    faults.affected(list(plan.world.start), seed=seed)
    return [
        replace(
            plan,
            policy=name,
            days=int(days) if days == int(days) else days,
            seed=seed,
            faults=faults,
            workers=workers or (2 if faults.is_deadly else 1),
        )
        for name in _policies(policy)
    ]


def _is_set(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _account_plan(
    sellers: int,
    days: float,
    seed: int,
    faults: Sequence[str],
    workers: int | None,
    *,
    is_watched: bool,
) -> AccountPlan:
    from headway_lab.simulation.accounts.faults import parse_account_faults
    from headway_lab.simulation.accounts.scenario import WORKERS as PULL_WORKERS
    from headway_lab.simulation.accounts.scenario import AccountPlan
    from headway_lab.simulation.accounts.world import account_world

    return AccountPlan(
        world=account_world(sellers=sellers, days=days, seed=seed),
        days=int(days) if days == int(days) else days,
        seed=seed,
        faults=parse_account_faults(faults),
        workers=workers or PULL_WORKERS,
        is_watched=is_watched,
    )


def _assert_sizes(products: int | None, days: float, workers: int | None) -> None:
    _assert_between("--products", PRODUCTS if products is None else products, 1, PRODUCTS_MAX)
    _assert_between("--days", days, 0.01, DAYS_MAX)
    _assert_between("--workers", 1 if workers is None else workers, 1, WORKERS_MAX)


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
    from headway_lab.simulation.changes import read_changes
    from headway_lab.simulation.world import DAY_S

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
    from headway import config

    url = config.load().database_url
    return url.get_secret_value() if url else None


def _assert_writable(trace: Path | None, plot: Path | None) -> None:
    """Fail before a long run if a file of it cannot be written; leave no empty one behind."""
    from headway_lab.charts.svg import assert_plottable

    if plot is not None:
        assert_plottable(plot)
    for option, path in (("--trace", trace), ("--plot", plot)):
        if path is None:
            continue
        is_new = not path.exists()
        try:
            path.open("a", encoding="utf-8").close()
        except OSError as error:
            raise InvalidError(f"cannot write {option} {path}: {error.strerror or error}") from None
        if is_new:
            path.unlink()


def _run_all(
    plans: Sequence[Plan], url: str | None, trace: Path | None, *, json_progress: bool
) -> list[RunOutcome]:
    from headway_lab.simulation.world import DAY_S

    outcomes: list[RunOutcome] = []

    def report_progress(at_s: float) -> None:
        tell_share((len(outcomes) + min(1.0, at_s / DAY_S / plan.days)) / len(plans))

    for number, plan in enumerate(plans, start=1):
        place = f" ({number} of {len(plans)})" if len(plans) > 1 else ""
        with (
            contextlib.nullcontext(report_progress)
            if json_progress
            else _progress(plan, place) as progress
        ):
            outcomes.append(_run(plan, url, trace, progress))
    return outcomes


def _run(
    plan: Plan,
    url: str | None,
    trace: Path | None,
    progress: Callable[[float], None],
    parts: Parts | None = None,
) -> RunOutcome:
    from headway_lab.simulation.report import figures, write_trace
    from headway_lab.simulation.scenario import Scenario
    from headway_lab.simulation.throwaway_database import open_throwaway_database

    real_clock = SystemClock()
    with open_throwaway_database(url) as database:
        began_s = real_clock.monotonic()
        scenario = Scenario(plan, database.pool, database.data_dir, parts)
        scenario.run(progress)
        real_seconds = real_clock.monotonic() - began_s
    if trace is not None:
        write_trace(scenario, trace)
    report = figures(scenario, real_seconds=real_seconds)
    return RunOutcome(report=report, broken=tuple(_broken_lines(scenario)))


@contextlib.contextmanager
def _progress(plan: Plan, place: str) -> Iterator[Callable[[float], None]]:
    """Show how far the run is, to a person only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from headway_lab.simulation.world import DAY_S

    if not sys.stderr.isatty():
        yield lambda _at_s: None
        return
    columns = (
        TextColumn(f"{plan.policy}{place}, {len(plan.world.start):,} SKUs"),
        BarColumn(),
        TextColumn("day {task.completed:.1f} of {task.total:g}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=plan.days)
        yield lambda at_s: bar.update(task, completed=at_s / DAY_S)


def _show(result: dict[str, Any] | list[dict[str, Any]], *, as_json: bool) -> None:
    """Print one report, or several side by side."""
    from headway_lab.simulation.account_command import print_accounts
    from headway_lab.simulation.compare import print_compared
    from headway_lab.simulation.results import print_one

    if as_json:
        emit(result)
    elif isinstance(result, list):
        print_compared(result)
    elif result["lane"] == "account":
        print_accounts(result)
    else:
        print_one(result)


def _exit_if_broken(outcomes: Sequence[RunOutcome], *, as_json: bool) -> None:
    """Print which laws broke and how to reproduce it; with JSON, on stderr."""
    from headway_lab.simulation.results import broken_laws

    for line in (line for outcome in outcomes for line in outcome.broken):
        if as_json:
            print(line, file=sys.stderr)
        else:
            say(line, style="red")
    if any(broken_laws(outcome.report) for outcome in outcomes):
        raise typer.Exit(1)


def _broken_lines(scenario: Scenario) -> list[str]:
    if not scenario.violations.examples:
        return []
    lines = [str(example) for example in scenario.violations.examples]
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
        *(["--watch"] if plan.is_watched else []),
    ]  # fmt: skip
    return shlex.join(words)
