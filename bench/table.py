"""Print results as aligned tables on stdout, and progress on stderr."""

import statistics
import sys
from collections.abc import Sequence


def show(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], *notes: str) -> None:
    """Print one table: the first column to the left, figures to the right, notes below."""
    widths = [max(len(cell) for cell in column) for column in zip(headers, *rows, strict=True)]
    print(f"\n{title}\n")
    for cells in (headers, ["-" * width for width in widths], *rows):
        first, *rest = cells
        figures = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *figures]).rstrip())
    for note in notes:
        print(f"  {note}")
    sys.stdout.flush()


def report_progress(text: str) -> None:
    """Print a progress message to stderr."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def median(values: Sequence[float]) -> float:
    """Return the median; 0 of nothing."""
    return statistics.median(values) if values else 0.0


def p95(values: Sequence[float]) -> float:
    """Return the value that 95 % do not exceed; 0 of nothing."""
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))] if values else 0.0
