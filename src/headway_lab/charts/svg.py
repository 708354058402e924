"""A picture as SVG (`--plot FILE`): self-contained, without script, with a dark mode."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from headway.errors import InvalidError
from headway_lab.charts.chart import Chart, Guide, Panel, binned, number, scale, ticks

WIDTH = 1200
LEFT, RIGHT = 76, 1150
# How much of the right side the names of dashed lines take, where there are any.
BESIDE = 110
TITLE_Y, SUBTITLE_Y, LEGEND_Y, LEGEND_LINE = 54, 82, 124, 28
PANEL_HEIGHTS = (300, 150)
LEGEND_GAP, PANEL_GAP, FOOT = 64, 84, 48
LEGEND_SIZE, LEGEND_INDENT, SWATCH, SWATCH_GAP = 16, 72.0, 34, 24
MARK_GAP, TICKS_MAX = 60, 15
# More points than this in a line are noise on a screen; two weeks of hours is the most.
POINTS_MAX = 336
LABEL_LINE = 18
CHARACTER = 0.56  # of the size of its type, about, in any sans-serif

# Tone → color in light mode, color in dark mode.
TONES = {
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9198a1"),
    "grid": ("#e4e8ec", "#262c36"),
    "tint": ("#ddebf9", "#10263f"),
    "series-0": ("#0969da", "#4493f8"),
    "series-1": ("#d97706", "#f0a83c"),
    "series-2": ("#8250df", "#b18cf5"),
    "series-3": ("#0a8a8a", "#2fc2c2"),
    "series-4": ("#cf222e", "#ff6b70"),
    "series-5": ("#4d7c0f", "#96c93d"),
}
SERIES_TONES = tuple(tone for tone in TONES if tone.startswith("series-"))

QuotaPoint = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLine:
    """A line through points."""

    points: tuple[QuotaPoint, ...]
    tone: str
    width: float
    dash: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnArea:
    """A filled outline."""

    points: tuple[QuotaPoint, ...]
    tone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnText:
    """A text on its baseline; its position is the start, the middle or the end of it."""

    at: QuotaPoint
    text: str
    tone: str
    size: float
    place: str = "start"
    is_bold: bool = False


Shape = DrawnLine | DrawnArea | DrawnText


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Shapes in the order in which to draw them."""

    width: int
    height: int
    title: str
    shapes: tuple[Shape, ...]


def lay_out(chart: Chart) -> Picture:
    """Lay out everything on a chart."""
    title = f"Staleness and calls: {chart.title}"
    shapes: list[Shape] = [
        DrawnText(at=(LEFT, TITLE_Y), text=title, tone="ink", size=26, is_bold=True),
        DrawnText(at=(LEFT, SUBTITLE_Y), text=chart.subtitle, tone="faint", size=16),
    ]
    legend, top = _legend(chart.panels[0])
    shapes += legend
    top += LEGEND_GAP
    has_guides = any(panel.guides for panel in chart.panels)
    right = RIGHT - BESIDE if has_guides else RIGHT
    foot = top
    for panel, height in zip(chart.panels, PANEL_HEIGHTS, strict=True):
        foot = top + height
        shapes += _panel(panel, _Box(hours=chart.hours, right=right, top=top, foot=foot))
        top = foot + PANEL_GAP
    title = f"{title}; {chart.subtitle}"
    return Picture(width=WIDTH, height=foot + FOOT, title=title, shapes=tuple(shapes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    """Where the lines of one panel are: over the hours of the run, from 0 to the top of a scale."""

    hours: float
    right: float
    top: float
    foot: float
    high: float = 1.0

    def x(self, at_h: float) -> float:
        return LEFT + at_h / self.hours * (self.right - LEFT)

    def y(self, value: float) -> float:
        return self.foot - value / self.high * (self.foot - self.top)


def _legend(panel: Panel) -> tuple[list[Shape], int]:
    """Name each line and its mean; return also where the legend ends."""
    y = LEGEND_Y
    shapes: list[Shape] = [
        DrawnText(at=(LEFT, y), text="means", tone="faint", size=LEGEND_SIZE),
    ]
    x = LEFT + LEGEND_INDENT
    for place, series in enumerate(panel.series):
        text = f"{series.name} {series.mean:,.1f}"
        width = SWATCH + len(text) * LEGEND_SIZE * CHARACTER + SWATCH_GAP
        if x > LEFT + LEGEND_INDENT and x + width > RIGHT:
            x, y = LEFT + LEGEND_INDENT, y + LEGEND_LINE
        line = ((x, y - 5.0), (x + SWATCH - 8, y - 5.0))
        shapes.append(DrawnLine(points=line, tone=_tone(place), width=4))
        shapes.append(DrawnText(at=(x + SWATCH, y), text=text, tone="ink", size=LEGEND_SIZE))
        x += width
    return shapes, y


def _panel(panel: Panel, box: _Box) -> Iterator[Shape]:
    count = max(1, round(box.hours / math.ceil(box.hours / POINTS_MAX)))
    drawn = [binned(series, box.hours, count) for series in panel.series]
    most = max([*(max(values) for values in drawn), *(guide.value for guide in panel.guides)])
    high, step = scale(most, marks=max(2, round((box.foot - box.top) / MARK_GAP)))
    box = replace(box, high=high)
    yield DrawnText(
        at=(LEFT, box.top - 16), text=panel.title.capitalize(), tone="ink", size=16, is_bold=True
    )
    lines = [(_steps if panel.is_count else _flow)(values, box) for values in drawn]
    if len(lines) == 1:
        yield DrawnArea(points=((LEFT, box.foot), *lines[0], (box.right, box.foot)), tone="tint")
    yield from _grid(box, step)
    for place, points in enumerate(lines):
        yield DrawnLine(points=points, tone=_tone(place), width=2.2)
    yield from _guides(panel.guides, box)


def _steps(values: Sequence[float], box: _Box) -> tuple[QuotaPoint, ...]:
    width = box.hours / len(values)
    return tuple(
        (box.x(at * width), box.y(value))
        for place, value in enumerate(values)
        for at in (place, place + 1)
    )


def _flow(values: Sequence[float], box: _Box) -> tuple[QuotaPoint, ...]:
    """Return a line through the middle of each part, extended to both ends."""
    width = box.hours / len(values)
    middles = tuple(
        (box.x((place + 0.5) * width), box.y(value)) for place, value in enumerate(values)
    )
    return ((LEFT, middles[0][1]), *middles, (box.right, middles[-1][1]))


def _grid(box: _Box, step: float) -> Iterator[Shape]:
    for mark in range(round(box.high / step) + 1):
        y = box.y(mark * step)
        tone = "grid" if mark else "faint"
        yield DrawnLine(points=((LEFT, y), (box.right, y)), tone=tone, width=1)
        text = number(mark * step)
        yield DrawnText(at=(LEFT - 10, y + 5), text=text, tone="faint", size=14, place="end")
    for at, name in ticks(box.hours, TICKS_MAX):
        x = box.x(at)
        yield DrawnLine(points=((x, box.foot), (x, box.foot + 6)), tone="faint", width=1)
        yield DrawnText(at=(x, box.foot + 24), text=name, tone="faint", size=14, place="middle")


def _guides(guides: Sequence[Guide], box: _Box) -> Iterator[Shape]:
    """Draw dashed lines, their names beside them and never on top of each other."""
    beside = box.foot + LABEL_LINE
    for guide in sorted(guides, key=lambda guide: guide.value):
        y = box.y(guide.value)
        beside = min(y + 5, beside - LABEL_LINE)
        yield DrawnLine(points=((LEFT, y), (box.right, y)), tone="faint", width=1.6, dash=7)
        text = f"{guide.name} {number(guide.value)}"
        yield DrawnText(at=(box.right + 10, beside), text=text, tone="ink", size=14)


def _tone(place: int) -> str:
    return SERIES_TONES[place % len(SERIES_TONES)]


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
SUFFIX = ".svg"


def assert_plottable(path: Path) -> None:
    """Raise InvalidError before a long run if the file is not an SVG."""
    if path.suffix.lower() != SUFFIX:
        raise InvalidError(f"--plot {path}: the file name must end in {SUFFIX}")


def write_plot(chart: Chart, path: Path) -> None:
    """Write the chart to an SVG file."""
    try:
        path.write_text(to_svg(lay_out(chart)), encoding="utf-8")
    except OSError as error:
        raise InvalidError(f"cannot write --plot {path}: {error.strerror or error}") from None


def to_svg(picture: Picture) -> str:
    """Return the whole file."""
    return "\n".join((*_head(picture), *(_shape(shape) for shape in picture.shapes), "</svg>", ""))


def _head(picture: Picture) -> Iterator[str]:
    width, height = picture.width, picture.height
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img" font-family={quoteattr(FONT)}>'
    )
    yield f"<title>{_text(picture.title)}</title>"
    # Light colors are attributes, so that a viewer without style sheets shows them.
    rules = "".join(
        f".f-{tone}{{fill:{dark}}}.s-{tone}{{stroke:{dark}}}" for tone, (_, dark) in TONES.items()
    )
    yield f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
    yield f'<rect width="{width}" height="{height}" {_fill("paper")}/>'


def _shape(shape: Shape) -> str:
    match shape:
        case DrawnLine():
            dash = f' stroke-dasharray="{shape.dash:g} {shape.dash:g}"' if shape.dash else ""
            return (
                f'<polyline points="{_points(shape.points)}" fill="none" {_stroke(shape.tone)}'
                f' stroke-width="{shape.width:g}" stroke-linejoin="round"{dash}/>'
            )
        case DrawnArea():
            return f'<polygon points="{_points(shape.points)}" {_fill(shape.tone)}/>'
        case DrawnText():
            x, y = shape.at
            bold = ' font-weight="600"' if shape.is_bold else ""
            return (
                f'<text x="{x:g}" y="{y:g}" font-size="{shape.size:g}"{bold}'
                f' text-anchor="{shape.place}" {_fill(shape.tone)}>{_text(shape.text)}</text>'
            )


def _points(points: tuple[QuotaPoint, ...]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _fill(tone: str) -> str:
    return f'fill="{TONES[tone][0]}" class="f-{tone}"'


def _stroke(tone: str) -> str:
    return f'stroke="{TONES[tone][0]}" class="s-{tone}"'


def _text(text: str) -> str:
    """Escape text; what XML cannot hold, a control character in a file name, becomes a mark."""
    return escape(
        "".join(
            character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
            for character in text
        )
    )
