"""The limiter in memory: the same transitions on a dict, for one thread and for tests.

It forgets everything when the process ends, so it is no limiter for a real provider.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from headway.core.limits.base_limiter import Generator, LimiterVerbs, Transition
from headway.core.limits.state import Ended, LedgerCall, LimitState, Note, at_us
from headway.core.limits.status import RECENT_CALLS, LimitStatus, show
from headway.core.limits.transitions import CallReport, Resource, enter, find_keys, find_step_us

T = TypeVar("T")


class Time(Protocol):
    """What it needs of a clock."""

    def now(self) -> datetime:
        """Return the instant, in UTC."""

    def monotonic(self) -> float:
        """Return seconds that never jump."""


class MemoryLimiter(LimiterVerbs):
    """A limiter whose states and ledger are dicts."""

    def __init__(
        self,
        clock: Time,
        resources: Iterable[Resource],
        *,
        ids: Callable[[], str] | None = None,
        jitter: Generator | None = None,
    ) -> None:
        self.resources = {resource.key: resource for resource in resources}
        self.ids = ids or self._count
        self.jitter = jitter
        self.states: dict[str, LimitState] = {}
        self.ledger: dict[tuple[str, str], LedgerCall] = {}
        self._clock = clock
        self._last_read: dict[str, tuple[float, int]] = {}
        self._made = 0

    def run(
        self, keys: tuple[str, ...], transition: Transition[T], report: CallReport | None = None
    ) -> T:
        """Apply the transition at the current instant and store its states."""
        del report  # the ledger in memory keeps times and costs only
        present = (self._clock.monotonic(), at_us(self._clock.now()))
        opened = enter(
            self.resources,
            {key: self.states.get(key) for key in keys},
            now_us=present[1],
            steps_us={key: find_step_us(self._last_read.get(key), *present) for key in keys},
        )
        moved = transition(opened.states, opened.answer)
        self.states.update({**opened.states, **moved.states})
        self._last_read.update(dict.fromkeys(keys, present))
        for note in (*opened.notes, *moved.notes):
            self._write(note)
        return moved.answer

    def status(self, key: str) -> LimitStatus:
        """Return the status of one key, for people."""
        keys = find_keys(self.resources, [key])
        now_us = at_us(self._clock.now())
        opened = enter(self.resources, {key: self.states.get(key) for key in keys}, now_us=now_us)
        lines = sorted(
            (line for line in self.ledger.values() if line.key == key),
            key=lambda line: (line.begun_at, line.permit_id),
            reverse=True,
        )
        return show(
            self.resources[key],
            opened.states[key],
            recent=tuple(lines[:RECENT_CALLS]),
            now_us=opened.answer,
        )

    def _write(self, note: Note) -> None:
        place = (note.permit_id, note.key)
        if isinstance(note, Ended):
            note = replace(
                self.ledger[place],
                status=note.status,
                finished_at=note.finished_at,
                arrived_by=note.arrived_by,
            )
        self.ledger[place] = note

    def _count(self) -> str:
        self._made += 1
        return str(UUID(int=self._made))
