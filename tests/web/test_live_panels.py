"""Panels that are watched: drawn once for all, who are woken by it; nobody looks by a timer."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.operations.room import ACME, furnish
from tests.web.test_live import NOW, READER, WRITER, Counting

from headway.clock import SystemClock
from headway.web.live import Drawing, Feed, PanelKey, Snapshot, ViewerRights
from headway.web.live_panels import Panels
from headway_lab.virtual_clock import VirtualClock

VIEWERS, PRIORITIES = 200, 4
PATIENCE_S = 120


@pytest.fixture
def counting(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Counting:
    return Counting(furnish(pool, clock, tmp_path))


def run(feed: Feed, scenario: Callable[[Panels], Awaitable[None]]) -> None:
    """Let a scenario happen in a loop of its own, and end what it began."""

    async def begin() -> None:
        closing = asyncio.Event()
        async with asyncio.timeout(PATIENCE_S):
            await scenario(Panels(feed, closing=closing))
        closing.set()

    asyncio.run(begin())


async def watch(
    panels: Panels, key: PanelKey, rights: ViewerRights, refreshes: int = PRIORITIES
) -> list[Drawing]:
    """Watch a board until it was drawn so often."""
    found: list[Drawing] = []
    async with panels.watch(key, rights) as panel:
        seen = panel.refreshes.count
        while len(found) < refreshes:
            seen = await panel.after(seen)
            found.append(panel.drawings[rights])
    return found


def quick(counting: Counting) -> Feed:
    feed = counting.feed(SystemClock())  # type: ignore[arg-type]
    feed.refresh_s = 0.05
    return feed


def test_two_hundred_viewers_are_woken_by_the_same_drawing(counting: Counting) -> None:
    async def scenario(panels: Panels) -> None:
        crowd = [watch(panels, NOW, WRITER) for _ in range(VIEWERS)]
        found = await asyncio.gather(*crowd)
        assert all(each == found[0] for each in found), "each sees what all see"
        assert len({id(each) for each in found[0]}) == PRIORITIES, "and at each turn something new"

    run(quick(counting), scenario)
    assert len(counting.drawings) <= PRIORITIES + 1
    assert len(counting.reads) <= PRIORITIES + 1


def test_panels_of_one_wall_share_a_read_and_those_of_another_do_not(counting: Counting) -> None:
    keys = [
        NOW,
        PanelKey(view="changes"),
        PanelKey(view="trouble"),
        PanelKey(view="now", seller=ACME),
    ]

    async def scenario(panels: Panels) -> None:
        await asyncio.gather(*(watch(panels, key, READER, refreshes=1) for key in keys))

    run(quick(counting), scenario)
    assert counting.reads.count(None) < len(keys) - 1
    assert ACME in counting.reads


def test_a_panel_that_nobody_watches_any_more_is_not_drawn(counting: Counting) -> None:
    async def scenario(panels: Panels) -> None:
        await watch(panels, NOW, WRITER, refreshes=1)
        assert (panels._panels, panels._scenes) == ({}, {})

    run(quick(counting), scenario)


def test_what_a_drawing_raises_reaches_whoever_watches(counting: Counting) -> None:
    feed = quick(counting)

    def broken(_key: PanelKey, _snapshot: Snapshot, _rights: ViewerRights) -> str:
        raise ZeroDivisionError

    feed._draw = broken

    async def scenario(panels: Panels) -> None:
        with pytest.raises(ZeroDivisionError):
            await watch(panels, NOW, WRITER)

    run(feed, scenario)
