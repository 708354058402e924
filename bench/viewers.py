"""The cost of viewers of the page: how late a refresh arrives, and how often the database is read.

The site serves from this process; the viewers are another, which reads plain sockets. The refresh
holds the time that it shows, so that its lateness is what a person sees.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from bench.services import CLOCK, postgres, scratch, version
from bench.streams import Viewer, open_stream, watch
from bench.table import median, p95, report_progress, show
from bench.views import SETTINGS, filled
from headway.app import build
from headway.clock import fresh_id
from headway.config import Settings
from headway.core.access import AccessGrant, Role
from headway.store.access.keys import ApiKeys
from headway.store.pool import Pool
from headway.web.pages import STREAMS_MAX
from headway.web.server import SiteServer, address, listen
from headway.web.site import create

COUNTS = (1, 50, 200)
VIEWS = ("now", "changes", "trouble", "freshness")
LISTINGS = 10_000
REFRESHES = 10
REFRESH_S = 1.0


class CountingPool:
    """A pool that counts how often a connection was lent."""

    def __init__(self, inner: Pool) -> None:
        self._inner = inner
        self.used = 0

    def connection(self) -> AbstractContextManager[Connection[TupleRow]]:
        """Lend a connection, and count it."""
        self.used += 1
        return self._inner.connection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The refreshes of one group of viewers: lateness, and how many the first viewer received."""

    late_ms: Sequence[float]
    refreshes: int
    panels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A round of viewers, with the connections that the site used for it."""

    viewers: int
    views: int
    used: int
    round: Round


def run(*, counts: Sequence[int] = COUNTS, refreshes: int = REFRESHES) -> None:
    """Fill, serve, watch, print."""
    with scratch() as folder, postgres(folder / "viewers", SETTINGS) as server:
        pool = filled(server, LISTINGS)
        try:
            results = []
            for viewers in counts:
                for views in (VIEWS[:1], VIEWS):
                    report_progress(
                        f"{viewers} viewers of {len(views)} views: {refreshes} refreshes"
                    )
                    results.append(_measured(pool, folder, viewers, views, refreshes))
        finally:
            pool.close()
        _print(results, version(server))


def _measured(
    pool: Any,  # noqa: ANN401 - a pool of psycopg's
    folder: Path,
    viewers: int,
    views: Sequence[str],
    refreshes: int,
) -> Figures:
    counting_pool = CountingPool(pool)
    with _served(counting_pool, folder, viewers) as (port, keys), _process() as viewers_process:
        # The first request of each viewer looks up its key; counting starts after that.
        warm = viewers_process.submit(watch_for, port, keys, viewers, views).result()
        assert warm.panels
        before = counting_pool.used
        stamps = viewers_process.submit(watch_on, refreshes).result()
        return Figures(
            viewers=viewers, views=len(views), used=counting_pool.used - before, round=stamps
        )


@contextmanager
def _served(pool: Pool, folder: Path, viewers: int) -> Iterator[tuple[int, Sequence[str]]]:
    app = build(Settings(data_dir=folder), CLOCK, pool)
    grants = [
        AccessGrant(name=f"bench {fresh_id()}", role=Role.READER)
        for _ in range(0, viewers, STREAMS_MAX)
    ]
    keys = [ApiKeys(pool).add_key(grant, now=CLOCK.now())[1] for grant in grants]
    taken = listen("127.0.0.1", 0)
    server = SiteServer(create(app, refresh_s=REFRESH_S), taken)
    server.start()
    try:
        yield int(address(taken).rstrip("/").rpartition(":")[2]), keys
    finally:
        server.stop()


def _process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


_open: list[Viewer] = []  # of the process that watches


def watch_for(port: int, keys: Sequence[str], viewers: int, views: Sequence[str]) -> Round:
    """Open the streams, spread over the views, and watch them for two refreshes."""
    _open[:] = [
        open_stream(port, keys[number % len(keys)], views[number % len(views)])
        for number in range(viewers)
    ]
    return watch_on(2)


def watch_on(refreshes: int) -> Round:
    """Watch until the first viewer has received that many more refreshes."""
    late: list[float] = []
    first, begun = _open[0], len(_open[0].stamps)

    def on_frame(_viewer: Viewer, stamp: int) -> None:
        late.append(CLOCK.now().timestamp() * 1000 - stamp)

    watch(_open, until=lambda: len(first.stamps) - begun >= refreshes, on_frame=on_frame)
    return Round(late_ms=late, refreshes=len(first.stamps) - begun, panels=len(late))


def _print(results: Sequence[Figures], note: str) -> None:
    rows = [
        (
            f"{figures.viewers} viewers, {figures.views} view{'s' if figures.views > 1 else ''}",
            f"{median(figures.round.late_ms):.0f}",
            f"{p95(figures.round.late_ms):.0f}",
            f"{max(figures.round.late_ms):.0f}",
            f"{figures.round.panels}",
            f"{figures.used / figures.round.refreshes:.1f}",
        )
        for figures in results
    ]
    show(
        f"watching {LISTINGS:,} listings, refreshed every {REFRESH_S:g} s (ms late)",
        ("viewers", "p50", "p95", "worst", "refreshes", "connections a refresh"),
        rows,
        note,
        "late: from the moment that a refresh shows until a viewer has it",
        "connections: used from the pool by all viewers together; each viewer's key is looked up",
        "again now and then, too",
    )
