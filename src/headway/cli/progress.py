"""A progress bar on stderr, for a person only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def progress(title: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show how much of a total is done; call what is yielded with each piece."""
    if not sys.stderr.isatty():
        yield lambda _piece: None
        return
    columns = (TextColumn(title), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total or None)
        yield lambda piece: bar.advance(task, piece)
