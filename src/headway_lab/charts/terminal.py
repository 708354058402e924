"""A chart as text: a band of blocks for each policy, all on one scale and over one axis of time."""

import math
import shutil
import sys
from dataclasses import dataclass

from rich.text import Text

from headway.cli.output import console
from headway.cli.sparkline import ASCII_MARK, BLOCKS, MARK, blocks
from headway_lab.charts.chart import Chart, Panel, binned, number, scale, ticks

COLORS = ("bright_blue", "yellow", "magenta", "cyan", "green", "red")
# The size for a pipe, which has no size of its own.
PIPE_COLUMNS, PIPE_LINES = 80, 48
COLUMNS_MIN, COLUMNS_MAX = 60, 160
MEAN_WIDTH = 7
TICK_COLUMNS = 11
MARKS = 4
# Lines of a band in the upper and in the lower panel, the tallest that leaves room is taken.
HEIGHTS = ((3, 2), (2, 2), (2, 1), (1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """How a run is spread over the columns, beside the names."""

    hours: float
    label: int
    width: int
    blocks: str


def show(chart: Chart, *, above: int) -> None:
    """Print a chart below that many lines of other text."""
    if sys.stdout.isatty():
        columns, lines = shutil.get_terminal_size((PIPE_COLUMNS, PIPE_LINES))
    else:
        columns, lines = PIPE_COLUMNS, PIPE_LINES
    for line in render(chart, columns=columns, lines=lines - above, blocks=blocks()):
        console().print(line, soft_wrap=True)


def render(chart: Chart, *, columns: int, lines: int, blocks: str = BLOCKS) -> list[Text]:
    """Return the lines of a chart, none wider than the columns."""
    names = [series.name for series in chart.panels[0].series]
    others = len(chart.panels) + 1
    fitting = [height for height in HEIGHTS if len(names) * sum(height) + others <= lines]
    label = max(map(len, names)) + 1 if len(names) > 1 else 0
    # The last column stays free: some terminals begin a new line when it is written.
    width = max(COLUMNS_MIN, min(columns, COLUMNS_MAX)) - label - MEAN_WIDTH - 1
    frame = _Frame(hours=chart.hours, label=label, width=width, blocks=blocks)
    rows = []
    for panel, height in zip(chart.panels, (fitting or HEIGHTS[-1:])[0], strict=True):
        rows += _panel(panel, frame, height)
    return [*rows, _axis(frame)]


def _panel(panel: Panel, frame: _Frame, height: int) -> list[Text]:
    drawn = [binned(series, frame.hours, frame.width) for series in panel.series]
    # Only the series decide: in so few lines a distant limit would flatten everything.
    top, _step = scale(max(max(values) for values in drawn), marks=MARKS)
    lines = [Text(f"{panel.title}, 0 to {number(top)}{_notes(panel)}", style="dim")]
    for place, (series, values) in enumerate(zip(panel.series, drawn, strict=True)):
        rows = _band([value / top for value in values], height, frame.blocks)
        color = COLORS[place % len(COLORS)]
        lines += [_upper(row.rstrip(), frame.label, color) for row in rows[:-1]]
        name = series.name.ljust(frame.label) if frame.label else ""
        mean = f"{series.mean:{MEAN_WIDTH},.1f}"
        lines.append(Text(name).append(rows[-1], style=color).append(mean))
    return lines


def _notes(panel: Panel) -> str:
    """Return what the bands cannot show: the levels beside them, and a peak that averages hide."""
    levels = [f"; {guide.name} {number(guide.value)}" for guide in panel.guides]
    if panel.is_count:
        most = max(max(series.values) for series in panel.series)
        levels.insert(0, f"; busiest hour {most:,.0f}")
    return "".join(levels)


def _upper(row: str, label: int, color: str) -> Text:
    return Text(" " * label).append(row, style=color) if row else Text()


def _band(shares: list[float], height: int, blocks: str) -> list[str]:
    """Return rows of blocks, the uppermost first; any value above zero is visible."""
    steps = len(blocks) - 1
    levels = [math.ceil(share * height * steps - 1e-9) for share in shares]
    return [
        "".join(blocks[max(0, min(steps, level - row * steps))] for level in levels)
        for row in reversed(range(height))
    ]


def _axis(frame: _Frame) -> Text:
    """Return the axis of round hours or days; above its end are the means of the series."""
    mark = MARK if frame.blocks == BLOCKS else ASCII_MARK
    cells = [" "] * (frame.label + frame.width)
    for at, name in ticks(frame.hours, max(2, frame.width // TICK_COLUMNS)):
        start = frame.label + round(at / frame.hours * frame.width)
        if start + len(name) < len(cells):
            cells[start : start + len(name) + 1] = f"{mark}{name}"
    return Text("".join(cells) + "mean".rjust(MEAN_WIDTH), style="dim")
