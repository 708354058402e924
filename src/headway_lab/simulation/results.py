"""The result of one simulated run for a person: its figures, the laws, a small chart."""

from collections.abc import Mapping
from typing import Any

from headway.cli.output import facts, say, table
from headway_lab.charts.chart import BASELINES, chart_of, days_of, number
from headway_lab.charts.terminal import show

LAW_NAMES = {
    "L1": "limit", "L2": "seats", "L3": "deadline", "L4": "isolation", "L5": "one owner",
    "L6": "nothing lost", "L7": "one effect", "L8": "blame", "L9": "no harm", "L10": "isolation",
    "L11": "quota", "L12": "fairness", "L13": "reasons", "L16": "blast radius",
}  # fmt: skip
# The title, a fact with a second line, and the prompt after them.
ABOVE = 3


def print_one(report: Mapping[str, Any]) -> None:
    """Print one run."""
    say(
        f"{report['products']:,} SKUs under {report['policy']}, {days_of(report['days'])} of the"
        f" {report['world']} world, seed {report['seed']}",
        style="bold",
    )
    pairs = [*_pairs(report), *alert_facts(report), *law_facts(report)]
    facts(pairs)
    print_alerts(report)
    print_broken(report)
    tables = len(report.get("alerts") or ()) + len(broken_laws(report))
    show(chart_of([report]), above=len(pairs) + tables + ABOVE)


def broken_laws(report: Mapping[str, Any]) -> dict[str, int]:
    """Return the laws that broke, and how often."""
    return {law: count for law, count in report["laws"].items() if count}


def print_broken(report: Mapping[str, Any]) -> None:
    """Print a table of the laws that broke, if any did."""
    broken = [
        (law, LAW_NAMES[law], "broken", f"{count:,} violations")
        for law, count in broken_laws(report).items()
    ]
    if broken:
        table(("law", "name", "verdict", "note"), broken)


def alert_facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return how many alerts fired, if they were evaluated."""
    alerts = report.get("alerts")
    if alerts is None:
        return []
    return [("alerts", f"{len(alerts):,} eta" if alerts else "none")]


def print_alerts(report: Mapping[str, Any]) -> None:
    """Print a table of the alerts that were eta, if any were."""
    rows = [
        (
            alert["name"],
            alert["subject"],
            alert["severity"],
            say_minute(alert["fired_at_min"]),
            "" if alert["resolved_at_min"] is None else say_minute(alert["resolved_at_min"]),
        )
        for alert in report.get("alerts") or ()
    ]
    if rows:
        table(("alert", "of", "severity", "fired", "over"), rows)


def say_minute(minute: float) -> str:
    """Return a minute of a run as `--fault` writes it: 10:32, or 1d10:32."""
    days, minutes = divmod(int(minute), 1440)
    return f"{f'{days}d' if days else ''}{minutes // 60:02}:{minutes % 60:02}"


def law_facts(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return which laws were kept, and which were not in play."""
    kept = [f"{LAW_NAMES[law]}" for law, count in report["laws"].items() if not count]
    idle = [LAW_NAMES[law] for law in report["laws_not_in_play"]]
    pairs = [("laws kept", ", ".join(kept) or "none")]
    return [*pairs, ("not in play", ", ".join(idle))] if idle else pairs


def forecast_fact(report: Mapping[str, Any]) -> tuple[str, str]:
    """Return how often `explain` named the right moment."""
    eta = report["eta_within_headway"]
    if not eta["asked"]:
        return "explain", "no forecasts"
    half = (
        "none came" if eta["median_error_s"] is None else f"half within {eta['median_error_s']:g} s"
    )
    share = f"{eta['share']:.1%} of {eta['asked']:,} instants right within one headway"
    return "explain", f"{share}, {half}"


def _pairs(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    fill = report["fill"]
    injected = ", ".join(f"{kind} {count}" for kind, count in report["faults_injected"].items())
    affected = (
        f"{report['pushed']:,} pushed, {report['superseded']:,} superseded, {report['lost']:,} lost"
    )
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
        ("changes", f"{report['changes']:,}: {affected}; {report['held']:,} listings held"),
        ("changes seen", _spread(report, "detection", "min", "none was")),
        ("seen to shown", _spread(report, "push", "s", "nothing was pushed")),
        ("shop calls", f"{shop_calls}; {report['double_writes']:,} double writes"),
        ("worst age", f"{report['worst_age_h']:.2f} h"),
        forecast_fact(report),
        ("parked", f"{report['parked']:,}; rescued {report['rescued']:,}"),
        ("faults injected", injected or "none"),
        ("real time", f"{report['real_seconds']:.1f} s; {speed}"),
    ]


def _staleness(report: Mapping[str, Any]) -> str:
    stale_min = report["staleness_min_per_listing_day"]
    known = [f"{name} {number(report[key])}" for key, name in BASELINES.items() if report.get(key)]
    beside = f" ({', '.join(known)})" if known else ""
    return f"{stale_min:.1f} min per listing and day{beside}"


def _spread(report: Mapping[str, Any], label: str, unit: str, none: str) -> str:
    """Return within which time half of them were done, and nearly all."""
    half, most = report[f"{label}_p50_{unit}"], report[f"{label}_p95_{unit}"]
    if half is None:
        return none
    digits = 0 if unit == "min" else 1
    return f"half in {half:,.{digits}f} {unit}, 95 % in {most:,.{digits}f} {unit}"
