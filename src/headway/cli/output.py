"""How commands print: tables and colours for a person, plain aligned text for a pipe, or JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.table import Table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
COLOURS = {
    "ok": "green", "warn": "yellow", "fail": "bold red", "broken": "bold red", "not in play": "dim",
}  # fmt: skip
UNBOUNDED = 10_000


def console() -> Console:
    """Return a console that neither wraps nor colors output to a pipe."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else UNBOUNDED
    return Console(width=width, highlight=False, markup=False, emoji=False)


def say(text: str = "", *, style: str = "") -> None:
    """Print one line."""
    from rich.text import Text

    console().print(Text(text, style=style), soft_wrap=True)


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str = "",
    empty: str = "",
    right: Container[int] = (),
) -> None:
    """Print rows under headings, numbers to the right; words such as ok get their color."""
    from rich.table import Table
    from rich.text import Text

    if title:
        say(title, style="bold")
    if not rows:
        say(empty or "none")
        return
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number, heading in enumerate(headings):
        justify: JustifyMethod = "right" if number in right else "left"
        grid.add_column(Text(heading), overflow="fold", no_wrap=number == 0, justify=justify)
    for row in rows:
        cells = [str("" if cell is None else cell) for cell in row]
        grid.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in cells))
    _print_trimmed(grid)


def facts(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names beside values."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(Text(name), Text(value))
    _print_trimmed(grid)


def emit(value: object) -> None:
    """Print a value as JSON: instants in ISO form, durations in seconds, money as text."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def plain(value: object) -> object:
    """Return the JSON form of a value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return _scalar(value)


def _scalar(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Decimal) else value


def _print_trimmed(grid: Table) -> None:
    """Print a grid; a pipe gets no blanks at the end of its lines."""
    out = console()
    if out.is_terminal:
        out.print(grid)
        return
    with out.capture() as captured:
        out.print(grid)
    print("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")))
