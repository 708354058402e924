"""`headway simulate --lane account`: days of sellers' shops in minutes, the laws looking on."""

import contextlib
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headway.cli.output import facts, say, table
from headway.cli.progress import tell_share
from headway.clock import SystemClock
from headway.core.accounts.jobs import JobStatus, Tier
from headway_lab.charts.chart import days_of
from headway_lab.platforms import PLATFORMS
from headway_lab.simulation.accounts.scenario import AccountParts, AccountPlan, AccountScenario
from headway_lab.simulation.accounts.world import DAY_S, HOUR_S
from headway_lab.simulation.results import (
    alert_facts,
    forecast_fact,
    law_facts,
    print_alerts,
    print_broken,
)
from headway_lab.simulation.throwaway_database import open_throwaway_database


def figures(scenario: AccountScenario, *, real_seconds: float) -> dict[str, Any]:
    """Return the whole report; only the real time differs between equal runs."""
    plan, laws, outcome = scenario.plan, scenario.laws, scenario.outcome
    tiers = Counter(plan.world.tiers.values())
    accounts = Counter(shop.platform for shop in plan.world.shops.values())
    return {
        "lane": "account",
        "sellers": len(plan.world.tiers),
        "days": plan.days,
        "seed": plan.seed,
        "calls_by_provider": {
            sim: simulated.calls for sim, simulated in scenario.platforms.items()
        },
        "refusals_by_provider": {
            sim: simulated.refusals for sim, simulated in scenario.platforms.items()
        },
        "peak_quota_share": round(scenario.etsy.peak_share, 4),
        "served_by_tier": outcome.served,
        "age_by_tier_min": outcome.age_min,
        "starved": outcome.starved,
        "rows_missing": outcome.tally.missing,
        "rows_wrong": outcome.tally.wrong,
        "laws": scenario.violations.counts,
        "laws_not_in_play": scenario.violations.not_checked,
        "rows": outcome.tally.rows,
        "rows_withheld": outcome.tally.withheld,
        "rows_hidden": outcome.tally.hidden,
        "rows_excused": outcome.tally.excused,
        "rows_unequal": dict(sorted(outcome.tally.unequal.items())),
        "etsy_demand_per_day": round(scenario.etsy_demand),
        "etsy_day_limit": scenario.etsy.short_day,
        "etsy_served_by_tier": outcome.etsy_served,
        "etsy_age_by_tier_min": outcome.etsy_age_min,
        "longest_wait_by_tier_h": outcome.longest_wait_h,
        "sellers_by_tier": {tier.value: tiers[tier] for tier in Tier},
        "accounts_by_provider": {name: accounts[name] for name in PLATFORMS},
        "runs": {
            "completed": laws.ended[JobStatus.COMPLETED],
            "yielded or rate limited": laws.ended[JobStatus.QUEUED],
            "failed": laws.ended[JobStatus.FAILED],
            "plan limited": laws.ended[JobStatus.LIMITED],
        },
        "claims_by_type": {str(kind): count for kind, count in sorted(laws.claims.items())},
        "pages": laws.pages,
        "plan_limited": len(laws.limited),
        "rescued": laws.rescued,
        "eta_within_headway": scenario.forecasts.figures(),
        "alerts": scenario.alerts.figures() if plan.is_watched else None,
        "refused": laws.refused,
        "grants_lost": scenario.people.grants_lost,
        "webhooks": dict(sorted(scenario.people.hooks.items())),
        "events": len(plan.world.future),
        "faults_injected": _injected(scenario),
        "settling_h": round(outcome.settling_s / HOUR_S, 1),
        "real_seconds": round(real_seconds, 2),
    }


def _injected(scenario: AccountScenario) -> dict[str, int]:
    injected = {"crash": scenario.workers.crashes, "stall": scenario.workers.stalls}
    for name, simulated in scenario.platforms.items():
        injected |= {f"{name}-{kind}": count for kind, count in simulated.injected.items()}
    return {kind: count for kind, count in sorted(injected.items()) if count}


def run_accounts(
    plan: AccountPlan,
    url: str | None,
    parts: AccountParts | None = None,
    *,
    json_progress: bool = False,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Run a plan; return the report and the lines about laws that broke.

    With `json_progress`, progress goes to stderr as JSON.
    """
    real_clock = SystemClock()
    shown = _json_progress(plan) if json_progress else _progress(plan)
    with open_throwaway_database(url) as database, shown as progress:
        began_s = real_clock.monotonic()
        scenario = AccountScenario(plan, database.pool, database.data_dir, parts)
        scenario.run(progress)
        report = figures(scenario, real_seconds=real_clock.monotonic() - began_s)
    broken = [str(example) for example in scenario.violations.examples]
    return report, tuple([*broken, f"reproduce: {_command(plan)}"] if broken else ())


def print_accounts(report: Mapping[str, Any]) -> None:
    """Print one run as a person reads it."""
    title = f"{report['sellers']:,} sellers, {days_of(report['days'])}, seed {report['seed']}"
    say(title, style="bold")
    headings = (
        "tier", "sellers", "age of orders", "95 % of the time", "runs served", "of Etsy's",
        "longest wait",
    )  # fmt: skip
    table(headings, [_tier(report, tier) for tier in report["sellers_by_tier"]], right={1})
    rows = [
        (
            name,
            f"{report['calls_by_provider'][name]:,}",
            f"{report['refusals_by_provider'][name]:,}",
            f"{report['accounts_by_provider'][name]:,}",
        )
        for name in report["calls_by_provider"]
    ]
    table(("platform", "calls", "refused", "accounts"), rows, right={1, 2, 3})
    facts([*_pairs(report), *alert_facts(report), *law_facts(report)])
    print_alerts(report)
    print_broken(report)


def _tier(report: Mapping[str, Any], tier: str) -> tuple[str, ...]:
    age = report["age_by_tier_min"].get(tier)
    served, etsy = report["served_by_tier"].get(tier), report["etsy_served_by_tier"].get(tier)
    return (
        tier,
        f"{report['sellers_by_tier'][tier]:,}",
        "" if age is None else f"{age['mean']:.1f} min",
        "" if age is None else f"under {age['p95']:.1f} min",
        "" if served is None else f"{served:.0%}",
        "" if etsy is None else f"{etsy:.0%}",
        f"{report['longest_wait_by_tier_h'][tier]:.1f} h",
    )


def _pairs(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = f"{report['rows']:,}: {report['rows_missing']:,} missing, {report['rows_wrong']:,} wrong"
    aside = f"{report['rows_withheld']:,} beyond a quota, {report['rows_hidden']:,} hidden"
    runs = report["runs"]
    kinds = ", ".join(f"{name} {count:,}" for name, count in runs.items())
    hooks = ", ".join(f"{name} {count:,}" for name, count in report["webhooks"].items())
    injected = ", ".join(f"{kind} {count:,}" for kind, count in report["faults_injected"].items())
    day = f"{report['etsy_demand_per_day']:,} calls needed, {report['etsy_day_limit']:,} allowed"
    return [
        ("Etsy's day", f"{day}; at most {report['peak_quota_share']:.1%} used"),
        ("rows", f"{rows}; {aside}"),
        ("runs", kinds),
        (
            "starved",
            f"{report['starved']:,} jobs; {report['plan_limited']:,} sellers at their quota",
        ),
        forecast_fact(report),
        ("rescued", f"{report['rescued']:,}; {report['refused']:,} late words refused"),
        ("grants lost", f"{report['grants_lost']:,}, connected again by their sellers"),
        ("webhooks", hooks or "none"),
        ("faults injected", injected or "none"),
        ("real time", f"{report['real_seconds']:.1f} s; {report['settling_h']:.0f} h to settle"),
    ]


@contextlib.contextmanager
def _json_progress(plan: AccountPlan) -> Iterator[Callable[[float], None]]:
    yield lambda at_s: tell_share(at_s / DAY_S / plan.days)


@contextlib.contextmanager
def _progress(plan: AccountPlan) -> Iterator[Callable[[float], None]]:
    """Show how far the run is, to a person only."""
    if not sys.stderr.isatty():
        yield lambda _at_s: None
        return
    columns = (
        TextColumn(f"{len(plan.world.tiers):,} sellers"),
        BarColumn(),
        TextColumn("day {task.completed:.1f} of {task.total:g}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=plan.days)
        yield lambda at_s: bar.update(task, completed=min(at_s / DAY_S, plan.days))


def _command(plan: AccountPlan) -> str:
    words = [
        "headway", "simulate", "--lane", "account", "--sellers", str(len(plan.world.tiers)),
        "--days", f"{plan.days:g}", "--seed", str(plan.seed), "--workers", str(plan.workers),
        *(word for spec in plan.faults.specs for word in ("--fault", spec)),
        *(["--watch"] if plan.is_watched else []),
    ]  # fmt: skip
    return shlex.join(words)
