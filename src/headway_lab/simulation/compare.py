"""Runs of one world under several policies, side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from headway.cli.output import say, table
from headway_lab.charts.chart import chart_of
from headway_lab.charts.terminal import show
from headway_lab.simulation.results import broken_laws

BEST = "*"
HEADINGS = ("policy", "calls", "fill", "fresh", "stale")
MORE_HEADINGS = ("p50", "p95", "worst", "laws")
# Figures that reports may have, beside baselines, and their short names.
SHORT = {"staleness_to_bound": "/bound", "staleness_to_round_robin": "/robin"}
# Title, headings, two notes and a blank line, and the prompt after them.
ABOVE = 6


def print_compared(reports: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with one row per policy, then the chart."""
    chart = chart_of(reports)
    say(f"{chart.title}, {chart.subtitle}", style="bold")
    winners = best(reports)
    keys = [key for key in SHORT if any(report.get(key) is not None for report in reports)]
    more = (*MORE_HEADINGS, *(["alerts"] if _is_watched(reports) else []))
    headings = (*HEADINGS, *(SHORT[key] for key in keys), *more)
    rows = [_row(report, keys, is_best=report["policy"] in winners) for report in reports]
    table(headings, rows, right=range(1, len(HEADINGS) + len(keys) + len(MORE_HEADINGS) - 1))
    for note in _notes(keys, has_best=bool(winners)):
        say(note, style="dim")
    say()
    show(chart, above=len(rows) + ABOVE)


def best(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the policies with the least staleness among those that broke no law."""
    stale_min = {
        str(report["policy"]): float(report["staleness_min_per_listing_day"])
        for report in reports
        if not broken_laws(report)
    }
    return [name for name, minutes in stale_min.items() if minutes == min(stale_min.values())]


def _row(report: Mapping[str, Any], keys: Sequence[str], *, is_best: bool) -> list[str]:
    fill, broken = report["fill"], broken_laws(report)
    return [
        f"{report['policy']}{BEST if is_best else ''}",
        f"{report['calls'] / report['days']:,.0f}",
        "-" if fill is None else f"{fill:.1%}",
        f"{report['freshness']:.2%}",
        f"{report['staleness_min_per_listing_day']:,.1f}",
        *("-" if report.get(key) is None else f"{report[key]:.2f}" for key in keys),
        _minutes(report["detection_p50_min"]),
        _minutes(report["detection_p95_min"]),
        f"{report['worst_age_h']:,.1f}",
        "ok" if not broken else ", ".join(f"{law} {count:,}x" for law, count in broken.items()),
        *([_alerts_of(report)] if _is_watched([report]) else []),
    ]


def _is_watched(reports: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if alerts were evaluated."""
    return any(report.get("alerts") is not None for report in reports)


def _alerts_of(report: Mapping[str, Any]) -> str:
    """Return the alerts that fired, with a count if more than one."""
    counts = Counter(alert["name"] for alert in report["alerts"])
    alerts = [f"{name} {count}x" if count > 1 else name for name, count in counts.items()]
    return ", ".join(alerts) or "none"


def _notes(keys: Sequence[str], *, has_best: bool) -> tuple[str, str]:
    times = f"; {', '.join(SHORT[key] for key in keys)}: times that" if keys else ""
    mark = f"; {BEST}: least stale, no law broken" if has_best else ""
    return (
        f"calls: a day; stale: minutes per listing and day{times};",
        f"p50, p95: minutes until seen; worst: age in hours{mark}",
    )


def _minutes(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
