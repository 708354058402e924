"""Fetch from every supplier in one process without other workers."""

import heapq
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from headway.clock import Clock
from headway.core.catalog.listings import MAIN, Done, SupplierName, Wait
from headway.errors import HeadwayError, InvariantError

# How soon a supplier is found that was added meanwhile, and one in trouble is tried again.
LOOK = timedelta(seconds=15)
RETRY = timedelta(seconds=10)


class Stepping(Protocol):
    """A fetch, or what takes its place."""

    def step(self) -> Done | Wait:
        """Do the next step."""


class FetchAll:
    """The fetch of every supplier; a step is the next step of the supplier that is due first.

    Any number of threads may call `step`: each supplier is in one thread at a time, so a supplier
    that does not answer delays no other.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        names: Callable[[], Sequence[SupplierName]],
        new_fetch: Callable[[SupplierName], Stepping],
    ) -> None:
        self._clock = clock
        self._names = names
        self._new_fetch = new_fetch
        self._lock = threading.Lock()
        self._known: set[SupplierName] = set()
        self._fetches: dict[SupplierName, Stepping] = {}
        self._due: list[tuple[datetime, SupplierName]] = []
        self._look_at = clock.now()

    def step(self) -> Done | Wait:
        """Do the next step of the supplier that is due first, or return when one is."""
        name, until = self._take()
        if name is None:
            return Wait(until=until, why="no supplier is due")
        due_at = self._clock.now() + RETRY
        try:
            if name not in self._fetches:
                self._fetches[name] = self._new_fetch(name)
            result = self._fetches[name].step()
            due_at = result.until if isinstance(result, Wait) else self._clock.now()
        except InvariantError:
            raise
        except HeadwayError as error:
            # Reported, not raised: raising would delay the other suppliers.
            result = Done(what=str(error) if name == MAIN else f"{name}: {error}")
        finally:
            with self._lock:
                heapq.heappush(self._due, (due_at, name))
        return Done() if isinstance(result, Wait) else result

    def _take(self) -> tuple[SupplierName | None, datetime]:
        """Take the supplier that is due first; without one, return when to check again."""
        with self._lock:
            now = self._clock.now()
            if now >= self._look_at:
                self._look(now)
                self._look_at = now + LOOK
            while self._due and self._due[0][0] <= now:
                _, name = heapq.heappop(self._due)
                if name in self._known:
                    return name, now
                self._fetches.pop(name, None)
            return None, min([self._look_at, *(at for at, _ in self._due[:1])])

    def _look(self, now: datetime) -> None:
        names = set(self._names())
        for name in names - self._known:
            heapq.heappush(self._due, (now, name))
        self._known = names
