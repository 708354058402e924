"""How far long work is: a bar on stderr for a person, or lines of JSON there for a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float], None]


@contextmanager
def progress(title: str, total: float) -> Iterator[Advance]:
    """Show how much of a total is done; call what is yielded with each piece."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    if not sys.stderr.isatty():
        yield lambda _piece: None
        return
    columns = (TextColumn(title), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total or None)
        yield lambda piece: bar.advance(task, piece)


def tell_share(share: float) -> None:
    """Write how much of everything is done, from 0 to 1, as one line of JSON."""
    print(json.dumps({"progress": round(min(1.0, share), 4)}), file=sys.stderr, flush=True)
