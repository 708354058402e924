"""Viewers over sockets: the database is read once per refresh and view, however many watch."""

import contextlib
from pathlib import Path

import pytest
from bench.streams import Viewer, open_stream, watch
from bench.viewers import Counting
from psycopg_pool import ConnectionPool
from tests.web.keys import shown

from headway.app import build
from headway.clock import SystemClock
from headway.config import Settings
from headway.web.live import PanelKey
from headway.web.sections import more, scene
from headway.web.server import SiteServer, address, listen
from headway.web.site import create

VIEWERS, REFRESHES = 30, 5
# Their keys are not asked for again meanwhile: only what is shown is counted.
FOR_EVER_S = 3600.0


@pytest.mark.parametrize("views", (("now",), ("now", "freshness", "trouble")))
def test_thirty_viewers_cost_the_reads_of_one(
    pool: ConnectionPool, tmp_path: Path, views: tuple[str, ...]
) -> None:
    counting = Counting(pool)
    app = build(Settings(data_dir=tmp_path), SystemClock(), counting)
    seen = scene(app, None)
    for view in views:
        more(app)(PanelKey(view=view), seen)
    one_refresh = counting.used
    key = shown(pool)["Authorization"].removeprefix("Bearer ")
    taken = listen("127.0.0.1", 0)
    port = int(address(taken).rstrip("/").rpartition(":")[2])
    server = SiteServer(create(app, refresh_s=0.5, ask_again_s=FOR_EVER_S), taken)
    server.start()
    viewers = [open_stream(port, key, views[each % len(views)]) for each in range(VIEWERS)]
    try:
        watch(viewers, until=lambda: all(each.stamps for each in viewers))
        before, begun = counting.used, [len(each.stamps) for each in viewers]
        watch(viewers, until=lambda: shown_since(viewers, begun) >= REFRESHES)
    finally:
        server.stop()
    spent = counting.used - before
    for each in viewers:
        drain(each)
    # Twice, because a viewer who is late misses a board; reads of each would be many times more.
    assert spent <= 2 * (shown_since(viewers, begun) + 1) * one_refresh


def shown_since(viewers: list[Viewer], begun: list[int]) -> int:
    """Return how many boards the best served viewer has seen since."""
    return max(len(each.stamps) - old for each, old in zip(viewers, begun, strict=True))


def drain(viewer: Viewer) -> None:
    """Take what was on its way when the server ended."""
    with viewer.stream, contextlib.suppress(OSError):
        while True:
            viewer.read()
