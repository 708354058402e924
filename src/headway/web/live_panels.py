"""Boards that somebody watches: each is drawn once for all, and all who watch are woken by it.

One task reads the scene of each wall once per interval; one task per board then draws it. Whoever
watches waits for that and for nothing else, so a thousand viewers are as early as one.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from headway.core.catalog.listings import SellerId
from headway.web.live import SCENE, BoardKey, Drawing, Feed, ViewerRights

# So often at most, should somebody want no interval at all.
SHORTEST_S = 0.02


class RefreshCounter:
    """Counts turns; many may wait for the next one, and none is missed."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()

    def wake(self) -> None:
        """Wake all who wait."""
        self.count += 1
        self._next.set()
        self._next = asyncio.Event()

    async def after(self, count: int) -> int:
        """Wait until there was a turn after that one; return which it was."""
        while self.count <= count:
            await self._next.wait()
        return self.count


@dataclass(slots=True, kw_only=True)
class _Kept:
    """What is kept going as long as somebody watches it."""

    refreshes: RefreshCounter = field(default_factory=RefreshCounter)
    watchers: Counter[ViewerRights] = field(default_factory=Counter)
    task: asyncio.Task[None] | None = None


@dataclass(slots=True, kw_only=True)
class Board(_Kept):
    """One board: its last drawings, and the turns at which they were made."""

    drawings: dict[ViewerRights, Drawing] = field(default_factory=dict)

    async def after(self, count: int) -> int:
        """Wait until it was drawn again; raises what the drawing raised."""
        count = await self.refreshes.after(count)
        if self.task is not None and self.task.done() and not self.task.cancelled():
            self.task.result()
        return count


Name = TypeVar("Name")
Kept = TypeVar("Kept", bound=_Kept)


class Boards:
    """The boards that are watched now; lives in one event loop."""

    def __init__(self, feed: Feed, *, closing: asyncio.Event) -> None:
        self._feed = feed
        self._closing = closing
        self._scenes: dict[SellerId | None, _Kept] = {}
        self._panels: dict[BoardKey, Board] = {}

    @asynccontextmanager
    async def watch(self, key: BoardKey, rights: ViewerRights) -> AsyncIterator[Board]:
        """Keep a board going for one more viewer."""
        scene = self._scenes.setdefault(key.seller, _Kept())
        panel = self._panels.setdefault(key, Board())
        scene.watchers[rights] += 1
        panel.watchers[rights] += 1
        try:
            scene.task = scene.task or asyncio.create_task(self._read_on(key.seller, scene))
            panel.task = panel.task or asyncio.create_task(self._draw_on(key, panel, scene))
            yield panel
        finally:
            _leave(self._panels, key, panel, rights)
            _leave(self._scenes, key.seller, scene, rights)

    def wake(self) -> None:
        """Wake all who watch, so that they see that the end has come."""
        for panel in self._panels.values():
            panel.refreshes.wake()

    async def _read_on(self, seller: SellerId | None, scene: _Kept) -> None:
        key = BoardKey(view=SCENE, seller=seller)
        while not self._closing.is_set():
            await run_in_threadpool(self._feed.look, key)
            scene.refreshes.wake()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(SHORTEST_S, self._feed.due_in_s(key))):
                    await self._closing.wait()

    async def _draw_on(self, key: BoardKey, panel: Board, scene: _Kept) -> None:
        seen = 0
        try:
            while True:
                seen = await scene.refreshes.after(seen)
                for rights in list(panel.watchers):
                    drawing = await run_in_threadpool(self._feed.drawn, key, rights)
                    panel.drawings[rights] = drawing
                panel.refreshes.wake()
        finally:
            panel.refreshes.wake()


def _leave(kept: dict[Name, Kept], name: Name, one: Kept, rights: ViewerRights) -> None:
    """Let a viewer go; what nobody watches any more ends."""
    one.watchers[rights] -= 1
    one.watchers += Counter()  # drops those that are none
    if one.watchers:
        return
    kept.pop(name, None)
    if one.task is not None:
        one.task.cancel()
