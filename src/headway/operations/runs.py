"""The part of a desk that is about simulations and plans in the background."""

from collections.abc import Mapping
from typing import Any

from headway.app import App
from headway.clock import SystemClock, fresh_id
from headway.core.runs import Run, RunKind, assert_sane
from headway.errors import InvalidError
from headway.store.runs import Runs

NONE_LISTED = "the database lists no part; say how many there will be: --products 5000"
# A run is a process, and takes real time, whatever clock the engine runs on.
WALL = SystemClock()


class RunOperations:
    """Runs that somebody asks for; they belong to no seller."""

    def __init__(self, whole: App, *, actor: str) -> None:
        self._whole = whole
        self._runs = Runs(whole.pool)
        self._actor = actor

    def newest(self, *, limit: int, cursor: str | None = None) -> list[Run]:
        """Return simulations and plans without their results, the newest first."""
        return self._runs.newest(limit=limit, cursor=cursor)

    def find(self, id_: str) -> Run:
        """Return a simulation or plan with its result; raises NotFoundError."""
        return self._runs.find(id_)

    def start(self, kind: RunKind, request: Mapping[str, Any]) -> Run:
        """Queue a simulation or plan for a server to work out; raises InvalidError if too large."""
        if kind is RunKind.PLAN and "products" not in request:
            listed = self._whole.listings.count_skus()
            if not listed:
                raise InvalidError(NONE_LISTED)
            request = {"products": listed, **request}
        assert_sane(kind, request)
        return self._runs.add(fresh_id(), kind, request, actor=self._actor, now=WALL.now())

    def cancel(self, id_: str) -> Run:
        """Stop a simulation or plan; raises ConflictError for one that is over."""
        return self._runs.cancel(id_, now=WALL.now())
