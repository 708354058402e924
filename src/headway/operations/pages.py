"""Where a list goes on: the cut of a page out of rows that know their cursor."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Placed(Protocol):
    """A row that knows where its list goes on after it."""

    @property
    def cursor(self) -> str:
        """Where the list goes on."""
        ...


Row = TypeVar("Row", bound=Placed)


def cut(rows: Sequence[Row], limit: int) -> tuple[tuple[Row, ...], str | None]:
    """Return a page out of rows of which one more was read, and where to go on."""
    return tuple(rows[:limit]), rows[limit - 1].cursor if len(rows) > limit else None
