"""Rows of a simulated shop in the order of a stamp."""

from bisect import bisect_left, insort
from datetime import datetime

Place = tuple[float, int]


class Index:
    """Rows by number, sorted by a timestamp in seconds from the first use on."""

    def __init__(self) -> None:
        self._stamps: dict[int, float] = {}
        self._places: list[Place] | None = None

    def put(self, number: int, stamp: datetime) -> None:
        """Set the stamp of a row."""
        self.drop(number)
        self._stamps[number] = stamp.timestamp()
        if self._places is not None:
            insort(self._places, (self._stamps[number], number))

    def drop(self, number: int) -> None:
        """Forget a row."""
        former = self._stamps.pop(number, None)
        if former is not None and self._places is not None:
            del self._places[bisect_left(self._places, (former, number))]

    def places(self) -> list[Place]:
        """Return all places in order."""
        if self._places is None:
            self._places = sorted((stamp, number) for number, stamp in self._stamps.items())
        return self._places

    def stamp(self, number: int) -> float:
        """Return the stamp of a row."""
        return self._stamps[number]
