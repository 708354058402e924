"""Where a list goes on: the cut of a page out of rows that know their cursor."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Placed(Protocol):
    """A row with the cursor of the rows after it."""

    @property
    def cursor(self) -> str:
        """The cursor of the rows after it."""
        ...


Row = TypeVar("Row", bound=Placed)


def cut(rows: Sequence[Row], limit: int) -> tuple[tuple[Row, ...], str | None]:
    """Return a page from rows of which one more was read, and the cursor of the next page."""
    return tuple(rows[:limit]), rows[limit - 1].cursor if len(rows) > limit else None
