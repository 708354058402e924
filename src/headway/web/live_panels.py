"""Live panels: each is rendered once for all its viewers, and wakes them.

One task reads the scene of each seller (and one that of the operators) once per interval; one task
per panel then renders it. A viewer waits for that alone, so a thousand wait as long as one.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from headway.core.catalog.listings import SellerId
from headway.web.live import SCENE, Drawing, Feed, PanelKey, ViewerRights

# The shortest interval between two reads.
SHORTEST_S = 0.02


class RefreshCounter:
    """Counts refreshes; any number of tasks can wait for the next one without missing it."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()

    def wake(self) -> None:
        """Count one refresh and wake all waiting tasks."""
        self.count += 1
        self._next.set()
        self._next = asyncio.Event()

    async def after(self, count: int) -> int:
        """Wait for a refresh after number `count`; return its number."""
        while self.count <= count:
            await self._next.wait()
        return self.count


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A background task that runs as long as it has viewers."""

    refreshes: RefreshCounter = field(default_factory=RefreshCounter)
    watchers: Counter[ViewerRights] = field(default_factory=Counter)
    task: asyncio.Task[None] | None = None


@dataclass(slots=True, kw_only=True)
class Panel(_Watched):
    """One panel with its last drawings."""

    drawings: dict[ViewerRights, Drawing] = field(default_factory=dict)

    async def after(self, count: int) -> int:
        """Wait until the panel is rendered again; raises the error of the rendering."""
        count = await self.refreshes.after(count)
        if self.task is not None and self.task.done() and not self.task.cancelled():
            self.task.result()
        return count


Name = TypeVar("Name")
WatchedT = TypeVar("WatchedT", bound=_Watched)


class Panels:
    """The panels that have viewers now; belongs to one event loop."""

    def __init__(self, feed: Feed, *, closing: asyncio.Event) -> None:
        self._feed = feed
        self._closing = closing
        self._scenes: dict[SellerId | None, _Watched] = {}
        self._panels: dict[PanelKey, Panel] = {}

    @asynccontextmanager
    async def watch(self, key: PanelKey, rights: ViewerRights) -> AsyncIterator[Panel]:
        """Add a viewer to a panel, and start its tasks if it is the first."""
        scene = self._scenes.setdefault(key.seller, _Watched())
        panel = self._panels.setdefault(key, Panel())
        scene.watchers[rights] += 1
        panel.watchers[rights] += 1
        try:
            scene.task = scene.task or asyncio.create_task(self._keep_reading(key.seller, scene))
            panel.task = panel.task or asyncio.create_task(self._keep_drawing(key, panel, scene))
            yield panel
        finally:
            _leave(self._panels, key, panel, rights)
            _leave(self._scenes, key.seller, scene, rights)

    def wake(self) -> None:
        """Wake all viewers, so that they notice the shutdown."""
        for panel in self._panels.values():
            panel.refreshes.wake()

    async def _keep_reading(self, seller: SellerId | None, scene: _Watched) -> None:
        key = PanelKey(view=SCENE, seller=seller)
        while not self._closing.is_set():
            await run_in_threadpool(self._feed.look, key)
            scene.refreshes.wake()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(SHORTEST_S, self._feed.due_in_s(key))):
                    await self._closing.wait()

    async def _keep_drawing(self, key: PanelKey, panel: Panel, scene: _Watched) -> None:
        count = 0
        try:
            while True:
                count = await scene.refreshes.after(count)
                for rights in list(panel.watchers):
                    drawing = await run_in_threadpool(self._feed.drawn, key, rights)
                    panel.drawings[rights] = drawing
                panel.refreshes.wake()
        finally:
            panel.refreshes.wake()


def _leave(watched: dict[Name, WatchedT], name: Name, item: WatchedT, rights: ViewerRights) -> None:
    """Remove a viewer; stop the task after the last item."""
    item.watchers[rights] -= 1
    item.watchers += Counter()  # drops the zeros
    if item.watchers:
        return
    watched.pop(name, None)
    if item.task is not None:
        item.task.cancel()
