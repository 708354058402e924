"""The newest overview, read and drawn at most once per interval, however many are watching."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from headway.app import App
from headway.app.looks import look
from headway.clock import Clock, SystemClock
from headway.errors import StoreError
from headway.store.views import Overview

UNKNOWN = "nobody can be let in before it does"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One look at the database: an overview, or why there is none, and how that is drawn."""

    overview: Overview | None
    error: str
    html: str

    @staticmethod
    def without(draw: "Draw") -> "Sight":
        """Return what somebody sees who cannot be known while there is no database."""
        return Sight(overview=None, error=UNKNOWN, html=draw(None, UNKNOWN))


Draw = Callable[[Overview | None, str], str]


class Feed:
    """One reader for all viewers."""

    def __init__(
        self, app: App, draw: Draw, *, refresh_s: float = 1.0, wall: Clock | None = None
    ) -> None:
        self.refresh_s = refresh_s
        self._app = app
        self._draw = draw
        # How often a screen is drawn anew is real time, whatever clock the engine runs on.
        self._wall = wall or SystemClock()
        self._lock = threading.Lock()
        self._sight: Sight | None = None
        self._read_at_s = 0.0

    def recent(self) -> Sight | None:
        """Return the last look if it is young enough; never waits."""
        is_young = self._wall.monotonic() - self._read_at_s < self.refresh_s
        return self._sight if is_young else None

    def newest(self) -> Sight:
        """Return a young look; while somebody else is reading, the last one serves."""
        has_lock = self._lock.acquire(blocking=self._sight is None)
        if not has_lock:
            assert self._sight is not None
            return self._sight
        try:
            sight = self.recent() or self._read()
            self._sight = sight
            return sight
        finally:
            self._lock.release()

    def _read(self) -> Sight:
        try:
            seen, error = look(self._app), ""
        except StoreError as trouble:
            seen, error = None, str(trouble)
        sight = Sight(overview=seen, error=error, html=self._draw(seen, error))
        self._read_at_s = self._wall.monotonic()
        return sight
