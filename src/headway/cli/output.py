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
# Between two columns; and what a column of sentences needs to be readable.
GAP, PROSE_MIN = 2, 16


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
    cells = [[str("" if cell is None else cell) for cell in row] for row in rows]
    widths = column_widths([headings, *cells], console().width)
    if widths is None:
        _records(headings, cells)
        return
    grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for number, (heading, width) in enumerate(zip(headings, widths, strict=True)):
        justify: JustifyMethod = "right" if number in right else "left"
        grid.add_column(Text(heading), overflow="fold", width=width, justify=justify)
    for row in cells:
        grid.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in row))
    _print_trimmed(grid)


def column_widths(rows: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Return the widths of columns that break no word; None if the room is too small for that.

    Part numbers, ids and addresses are words: they must be whole to be copied.
    """
    columns = list(zip(*rows, strict=True))
    full = [max(map(len, column)) for column in columns]
    least = [
        max([min(width, PROSE_MIN), *(len(word) for cell in column for word in cell.split())])
        for column, width in zip(columns, full, strict=True)
    ]
    spare = room - GAP * (len(columns) - 1) - sum(least)
    if spare < 0:
        return None
    # Columns that lack little get it all; the others share the rest.
    widths = list(least)
    by_need = sorted(range(len(columns)), key=lambda number: full[number] - least[number])
    for done, number in enumerate(by_need):
        more = min(full[number] - least[number], spare // (len(columns) - done))
        widths[number] += more
        spare -= more
    return widths


def _records(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row by itself, one line for each value."""
    for number, row in enumerate(rows):
        if number:
            say()
        facts([(name, cell) for name, cell in zip(headings, row, strict=True) if cell])


def facts(pairs: Sequence[tuple[str, str]]) -> None:
    """Print names beside values."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(Text(name), Text(value, style=COLOURS.get(value, "")))
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
