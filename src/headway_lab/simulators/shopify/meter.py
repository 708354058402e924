"""How a simulated shop counts what an app may ask: points for GraphQL, calls for the old API.

Knows nothing of our limiter.
"""

import math


class PointBucket:
    """Points that are restored evenly; a query reserves its estimated cost and returns the rest."""

    def __init__(self, capacity: float, restore_per_s: float) -> None:
        self.capacity = capacity
        self.restore_per_s = restore_per_s
        self.level_max = 0.0
        self._available = capacity
        self._at_s = 0.0

    def available(self, at_s: float) -> float:
        """Return the points that are there now."""
        restored = (at_s - self._at_s) * self.restore_per_s
        self._available = min(self.capacity, self._available + max(0.0, restored))
        self._at_s = max(self._at_s, at_s)
        return self._available

    def take(self, points: float, at_s: float) -> bool:
        """Take the points if they are there."""
        if self.available(at_s) < points:
            return False
        self._available -= points
        self.level_max = max(self.level_max, self.capacity - self._available)
        return True

    def refund(self, points: float) -> None:
        """Return what was not used."""
        self._available = min(self.capacity, self._available + points)

    def drain(self, at_s: float) -> None:
        """Use up all points for others of the same app."""
        self.available(at_s)
        self._available = 0.0


class CallBucket:
    """The old API's leaky bucket of calls."""

    def __init__(self, size: int = 40, leak_per_s: float = 2.0) -> None:
        self.size = size
        self._leak_per_s = leak_per_s
        self._level = 0.0
        self._at_s = 0.0

    def add(self, at_s: float) -> tuple[bool, int]:
        """Add a call; return whether it fits, and the level that the client is shown."""
        self._level = max(0.0, self._level - (at_s - self._at_s) * self._leak_per_s)
        self._at_s = at_s
        if self._level + 1 > self.size:
            return False, self.size
        self._level += 1
        return True, math.ceil(self._level)
