"""The data of a chart: staleness over the run and price calls an hour, one series per policy.

A chart holds no drawing instructions: `terminal` and `picture` draw it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway_lab.simulation.scenario import HOUR_S, LIMIT, SPAN_S

HOURS_PER_DAY = 24
CALLS_MAX = LIMIT * HOUR_S / SPAN_S
# Below this share of the limit, a line at the limit would flatten everything else.
LIMIT_SHARE_MIN = 0.1
BASELINES = {"staleness_bound_min": "bound", "staleness_round_robin_min": "round robin"}
STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 10)
# Show a week in days, not as 168 hours.
IN_HOURS_MAX = 72
HOUR_STEPS = (1, 2, 3, 6, 12, 24, 48, 72, 120, 240, 480, 720, 1440, 2400, 4800, 9600)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSeries:
    """What one policy did in each hour; the last may be longer, to the end of the run."""

    name: str
    values: tuple[float, ...]
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """A level to compare the series with: a baseline, or a limit."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Series on one scale; a count is drawn as steps, a continuous value as a line."""

    title: str
    is_count: bool
    series: tuple[ChartSeries, ...]
    guides: tuple[Guide, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Panels over one axis of time."""

    title: str
    subtitle: str
    hours: float
    panels: tuple[Panel, ...]


def chart_of(reports: Sequence[Mapping[str, Any]]) -> Chart:
    """Describe the chart of runs of one world."""
    first = reports[0]
    hours = first["days"] * HOURS_PER_DAY
    source = f"world {first['world']}, seed {first['seed']}"
    kinds = sorted({kind for report in reports for kind in report["faults_injected"]})
    return Chart(
        title=f"{first['products']:,} SKUs over {days_of(first['days'])}",
        subtitle=f"{source}, with {', '.join(kinds)}" if kinds else source,
        hours=hours,
        panels=(_staleness(reports, hours), _calls(reports, hours)),
    )


def days_of(days: float) -> str:
    """Write a number of days."""
    return f"{days:g} day{'' if days == 1 else 's'}"


def binned(series: ChartSeries, hours: float, count: int) -> list[float]:
    """Return the averages of that many equal parts of the run."""
    edges = [*range(len(series.values)), hours]
    width, hour, means = hours / count, 0, []
    for number in range(count):
        from_h, to_h, total = number * width, (number + 1) * width, 0.0
        while True:
            overlap_h = min(to_h, edges[hour + 1]) - max(from_h, edges[hour])
            total += series.values[hour] * max(0.0, overlap_h)
            if edges[hour + 1] >= to_h or hour + 2 == len(edges):
                break
            hour += 1
        means.append(total / width)
    return means


def scale(most: float, marks: int) -> tuple[float, float]:
    """Return the top of a round scale that holds the value, and its step for that many marks."""
    if most <= 0:
        return 1.0, 1.0
    rough = most / marks
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(size * unit for size in STEPS if size * unit >= rough * (1 - 1e-9))
    return math.ceil(most / step - 1e-9) * step, step


def ticks(hours: float, marks: int) -> list[tuple[float, str]]:
    """Return at most that many round hours of the run, with their labels."""
    fit = (step for step in HOUR_STEPS if hours / step < marks)
    least = HOURS_PER_DAY if hours > IN_HOURS_MAX else 0
    step = next((candidate for candidate in fit if candidate >= least), HOUR_STEPS[-1])
    moments = range(0, math.floor(hours) + 1, step)
    if step % HOURS_PER_DAY:
        return [(at, f"{at} h") for at in moments]
    return [(at, f"day {at // HOURS_PER_DAY}") for at in moments]


def number(value: float) -> str:
    """Write a value of a scale in few characters."""
    if value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if value >= 1 else f"{value:.2g}"


def _staleness(reports: Sequence[Mapping[str, Any]], hours: float) -> Panel:
    """Chart how long listings were wrong per hour, in the unit of the figure and its baselines."""
    series = [
        ChartSeries(
            name=report["policy"],
            values=tuple(
                rate * HOURS_PER_DAY for rate in _rates(report["staleness_by_hour"], hours)
            ),
            mean=report["staleness_min_per_listing_day"],
        )
        for report in reports
    ]
    known = {
        name: report[key]
        for report in reports
        for key, name in BASELINES.items()
        if report.get(key)
    }
    guides = tuple(Guide(name=name, value=value) for name, value in known.items())
    title = "stale minutes per listing and day"
    return Panel(title=title, is_count=False, series=tuple(series), guides=guides)


def _calls(reports: Sequence[Mapping[str, Any]], hours: float) -> Panel:
    series = [
        ChartSeries(
            name=report["policy"],
            values=tuple(_rates(report["calls_by_hour"], hours)),
            mean=report["calls"] / hours,
        )
        for report in reports
    ]
    most = max(max(line.values) for line in series)
    if most >= CALLS_MAX * LIMIT_SHARE_MIN:
        guides: tuple[Guide, ...] = (Guide(name="limit", value=CALLS_MAX),)
        title = "price calls an hour"
    else:
        guides, title = (), f"price calls an hour, of {number(CALLS_MAX)} permitted"
    return Panel(title=title, is_count=True, series=tuple(series), guides=guides)


def _rates(amounts: Sequence[float], hours: float) -> list[float]:
    """Return the pace per hour; an incomplete last hour is added to the one before."""
    last = max(0, int(hours) - 1)
    return [*amounts[:last], sum(amounts[last:]) / (hours - last)]
