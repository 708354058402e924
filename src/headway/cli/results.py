"""What a person reads of one simulated run: its figures, the laws, a small chart."""

from collections.abc import Mapping
from typing import Any

from headway.cli.charts.chart import YARDSTICKS, chart_of, days_of, number
from headway.cli.charts.terminal import show
from headway.cli.output import facts, say, table

LAW_NAMES = {
    "L1": "limit", "L2": "seats", "L3": "deadline", "L4": "isolation", "L5": "one owner",
    "L6": "nothing lost", "L7": "one effect", "L8": "blame", "L9": "no harm", "L10": "walls",
    "L11": "quota", "L12": "fairness", "L13": "reasons",
}  # fmt: skip
# The title, a fact that takes a second line, and the prompt that comes after.
ABOVE = 3


def print_one(report: Mapping[str, Any]) -> None:
    """Print one run."""
    say(
        f"{report['products']:,} SKUs under {report['policy']}, {days_of(report['days'])} of the"
        f" {report['world']} world, seed {report['seed']}",
        style="bold",
    )
    pairs = [*_pairs(report), *_laws(report)]
    facts(pairs)
    broken = [
        (law, LAW_NAMES[law], "broken", f"{count:,} violations")
        for law, count in broken_laws(report).items()
    ]
    if broken:
        table(("law", "name", "verdict", "note"), broken)
    show(chart_of([report]), above=len(pairs) + len(broken) + ABOVE)


def broken_laws(report: Mapping[str, Any]) -> dict[str, int]:
    """Return the laws that broke, and how often."""
    return {law: count for law, count in report["laws"].items() if count}


def _laws(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    kept = [f"{LAW_NAMES[law]}" for law, count in report["laws"].items() if not count]
    idle = [LAW_NAMES[law] for law in report["laws_not_in_play"]]
    pairs = [("laws kept", ", ".join(kept) or "none")]
    return [*pairs, ("not in play", ", ".join(idle))] if idle else pairs


def _pairs(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    fill = report["fill"]
    injected = ", ".join(f"{kind} {count}" for kind, count in report["faults_injected"].items())
    seen = f"half in {_minutes(report['detection_p50_min'])}, 95 % in"
    fates = (
        f"{report['pushed']:,} pushed, {report['superseded']:,} superseded, {report['lost']:,} lost"
    )
    shown = f"half in {_seconds(report['push_p50_s'])}, 95 % in {_seconds(report['push_p95_s'])}"
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
        ("staleness", _staleness(report)),
        ("changes", f"{report['changes']:,}: {fates}; {report['held']:,} listings held"),
        ("changes seen", f"{seen} {_minutes(report['detection_p95_min'])}"),
        ("seen to shown", shown),
        ("shop calls", f"{shop_calls}; {report['double_writes']:,} double writes"),
        ("worst age", f"{report['worst_age_h']:.2f} h"),
        ("parked", f"{report['parked']:,}; rescued {report['rescued']:,}"),
        ("faults injected", injected or "none"),
        ("real time", f"{report['real_seconds']:.1f} s; {speed}"),
    ]


def _staleness(report: Mapping[str, Any]) -> str:
    stale_min = report["staleness_min_per_listing_day"]
    known = [f"{name} {number(report[key])}" for key, name in YARDSTICKS.items() if report.get(key)]
    beside = f" ({', '.join(known)})" if known else ""
    return f"{stale_min:.1f} min per listing and day{beside}"


def _minutes(value: float | None) -> str:
    return "none detected" if value is None else f"{value:,.0f} min"


def _seconds(value: float | None) -> str:
    return "nothing was pushed" if value is None else f"{value:,.1f} s"
