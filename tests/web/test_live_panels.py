"""Panels are drawn once for all viewers and wake them; no viewer polls."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.operations.sample import ACME, create_sample
from tests.web.test_live import NOW, READER, WRITER, CountingFeed

from headway.clock import SystemClock
from headway.web.live import Drawing, Feed, PanelKey, Snapshot, ViewerRights
from headway.web.live_panels import Panels
from headway_lab.virtual_clock import VirtualClock

VIEWERS, PRIORITIES = 200, 4
PATIENCE_S = 120


@pytest.fixture
def counting_feed(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> CountingFeed:
    return CountingFeed(create_sample(pool, clock, tmp_path))


def run(feed: Feed, scenario: Callable[[Panels], Awaitable[None]]) -> None:
    """Run a scenario in its own event loop, and stop the panels at its end."""

    async def begin() -> None:
        closing = asyncio.Event()
        async with asyncio.timeout(PATIENCE_S):
            await scenario(Panels(feed, closing=closing))
        closing.set()

    asyncio.run(begin())


async def watch(
    panels: Panels, key: PanelKey, rights: ViewerRights, refreshes: int = PRIORITIES
) -> list[Drawing]:
    """Watch a panel until it was drawn this many times."""
    drawings: list[Drawing] = []
    async with panels.watch(key, rights) as panel:
        count = panel.refreshes.count
        while len(drawings) < refreshes:
            count = await panel.after(count)
            drawings.append(panel.drawings[rights])
    return drawings


def quick(counting_feed: CountingFeed) -> Feed:
    feed = counting_feed.feed(SystemClock())  # type: ignore[arg-type]
    feed.refresh_s = 0.05
    return feed


def test_two_hundred_viewers_are_woken_by_the_same_drawing(counting_feed: CountingFeed) -> None:
    async def scenario(panels: Panels) -> None:
        crowd = [watch(panels, NOW, WRITER) for _ in range(VIEWERS)]
        drawings = await asyncio.gather(*crowd)
        assert all(drawing == drawings[0] for drawing in drawings), "all viewers see the same"
        assert len({id(drawing) for drawing in drawings[0]}) == PRIORITIES, (
            "and each refresh is new"
        )

    run(quick(counting_feed), scenario)
    assert len(counting_feed.drawings) <= PRIORITIES + 1
    assert len(counting_feed.reads) <= PRIORITIES + 1


def test_panels_of_one_seller_share_a_read_and_sellers_do_not(counting_feed: CountingFeed) -> None:
    keys = [
        NOW,
        PanelKey(view="changes"),
        PanelKey(view="trouble"),
        PanelKey(view="now", seller=ACME),
    ]

    async def scenario(panels: Panels) -> None:
        await asyncio.gather(*(watch(panels, key, READER, refreshes=1) for key in keys))

    run(quick(counting_feed), scenario)
    assert counting_feed.reads.count(None) < len(keys) - 1
    assert ACME in counting_feed.reads


def test_an_unwatched_panel_is_not_drawn(counting_feed: CountingFeed) -> None:
    async def scenario(panels: Panels) -> None:
        await watch(panels, NOW, WRITER, refreshes=1)
        assert (panels._panels, panels._scenes) == ({}, {})

    run(quick(counting_feed), scenario)


def test_an_error_in_drawing_reaches_the_viewers(counting_feed: CountingFeed) -> None:
    feed = quick(counting_feed)

    def broken(_key: PanelKey, _snapshot: Snapshot, _rights: ViewerRights) -> str:
        raise ZeroDivisionError

    feed._draw = broken

    async def scenario(panels: Panels) -> None:
        with pytest.raises(ZeroDivisionError):
            await watch(panels, NOW, WRITER)

    run(feed, scenario)
