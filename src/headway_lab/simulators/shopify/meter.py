"""How a simulated shop counts the points that an app may use; knows nothing of our limiter."""


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
