"""Viewers over sockets: the database is read once per refresh and view for all viewers."""

import contextlib
from pathlib import Path

import pytest
from bench.streams import Viewer, open_stream, watch
from bench.viewers import CountingPool
from psycopg_pool import ConnectionPool
from tests.web.keys import auth_headers

from headway.app import build
from headway.clock import SystemClock
from headway.config import Settings
from headway.web.live import PanelKey
from headway.web.sections import more, scene
from headway.web.server import SiteServer, address, listen
from headway.web.site import create

VIEWERS, REFRESHES = 30, 5
# Keys are not checked again during the test: only the reads of the views are counted.
FOR_EVER_S = 3600.0


@pytest.mark.parametrize("views", (("now",), ("now", "freshness", "trouble")))
def test_thirty_viewers_cost_the_reads_of_one(
    pool: ConnectionPool, tmp_path: Path, views: tuple[str, ...]
) -> None:
    counting_pool = CountingPool(pool)
    app = build(Settings(data_dir=tmp_path), SystemClock(), counting_pool)
    first_scene = scene(app, None)
    for view in views:
        more(app)(PanelKey(view=view), first_scene)
    one_refresh = counting_pool.used
    key = auth_headers(pool)["Authorization"].removeprefix("Bearer ")
    taken = listen("127.0.0.1", 0)
    port = int(address(taken).rstrip("/").rpartition(":")[2])
    server = SiteServer(create(app, refresh_s=0.5, ask_again_s=FOR_EVER_S), taken)
    server.start()
    viewers = [open_stream(port, key, views[number % len(views)]) for number in range(VIEWERS)]
    try:
        watch(viewers, until=lambda: all(viewer.stamps for viewer in viewers))
        before, begun = counting_pool.used, [len(viewer.stamps) for viewer in viewers]
        watch(viewers, until=lambda: refreshes_since(viewers, begun) >= REFRESHES)
    finally:
        server.stop()
    spent = counting_pool.used - before
    for viewer in viewers:
        drain(viewer)
    # Twice, because a slow viewer misses a refresh; one read per viewer would be many times more.
    assert spent <= 2 * (refreshes_since(viewers, begun) + 1) * one_refresh


def refreshes_since(viewers: list[Viewer], begun: list[int]) -> int:
    """Return the largest number of refreshes that a viewer has received since."""
    return max(len(viewer.stamps) - old for viewer, old in zip(viewers, begun, strict=True))


def drain(viewer: Viewer) -> None:
    """Read what was in flight when the server stopped."""
    with viewer.stream, contextlib.suppress(OSError):
        while True:
            viewer.read()
