"""Rows of a simulated shop in the order of a stamp."""

from datetime import datetime

Place = tuple[float, int]


class Index:
    """Rows by number, sorted by a stamp in seconds, and only when somebody asks."""

    def __init__(self) -> None:
        self._stamps: dict[int, float] = {}
        self._places: list[Place] | None = None

    def put(self, number: int, stamp: datetime) -> None:
        """Set the stamp of a row."""
        # A row that moves goes to the end, so that the list is nearly sorted when it is needed.
        self._stamps.pop(number, None)
        self._stamps[number] = stamp.timestamp()
        self._places = None

    def drop(self, number: int) -> None:
        """Forget a row."""
        self._stamps.pop(number, None)
        self._places = None

    def places(self) -> list[Place]:
        """Return all places in order."""
        if self._places is None:
            self._places = sorted((stamp, number) for number, stamp in self._stamps.items())
        return self._places

    def stamp(self, number: int) -> float:
        """Return the stamp of a row."""
        return self._stamps[number]
