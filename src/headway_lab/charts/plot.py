"""`--plot FILE`: write a chart as SVG."""

from pathlib import Path

from headway.errors import InvalidError
from headway_lab.charts.chart import Chart
from headway_lab.charts.picture import lay_out
from headway_lab.charts.svg import to_svg

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
