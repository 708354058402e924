"""A picture as SVG (`--plot FILE`): self-contained, without script, with a dark mode."""

from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from headway.errors import InvalidError
from headway_lab.charts.chart import Chart
from headway_lab.charts.picture import (
    TONES,
    DrawnArea,
    DrawnLine,
    DrawnText,
    Picture,
    Point,
    Shape,
    lay_out,
)

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


def _points(points: tuple[Point, ...]) -> str:
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
