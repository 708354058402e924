"""`--plot FILE`: which files can be written, and writing them."""

import importlib.util
from pathlib import Path

from headway.cli.charts.chart import Chart
from headway.cli.charts.picture import lay_out
from headway.cli.charts.svg import to_svg
from headway.errors import InvalidError

SVG, PNG = ".svg", ".png"


def assert_plottable(path: Path) -> None:
    """Fail, before a long run rather than after it, if no such picture can be made."""
    suffix = path.suffix.lower()
    if suffix not in {SVG, PNG}:
        raise InvalidError(f"--plot {path} is neither {SVG} nor {PNG}")
    if suffix == PNG and importlib.util.find_spec("PIL") is None:
        other = path.with_suffix(SVG)
        raise InvalidError(
            f"--plot {path} needs Pillow; install headway[plot], or take --plot {other}"
        )


def write_plot(chart: Chart, path: Path) -> None:
    """Write the chart to a file of the kind that its suffix says."""
    picture = lay_out(chart)
    try:
        if path.suffix.lower() == SVG:
            path.write_text(to_svg(picture), encoding="utf-8")
            return
        from headway.cli.charts.png import write_png  # noqa: PLC0415 - Pillow may be absent

        write_png(picture, path)
    except OSError as error:
        raise InvalidError(f"cannot write --plot {path}: {error.strerror or error}") from None
