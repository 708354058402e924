"""Each view is read and drawn once for all viewers, and the last one is kept in an outage."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.operations.sample import ACME, SampleDeployment, create_sample

from headway.core.catalog.listings import SellerId
from headway.errors import StoreError
from headway.operations.callers import seller_or_operator
from headway.operations.deployment import status
from headway.web.live import Drawing, Feed, PanelKey, Scene, Snapshot, ViewerRights, as_event
from headway_lab.virtual_clock import VirtualClock

VIEWERS = 200
NOW = PanelKey(view="now")
READER, WRITER = ViewerRights(), ViewerRights(can_write=True)


class CountingFeed:
    """Load and draw for a feed, and count the calls."""

    def __init__(self, sample: SampleDeployment) -> None:
        self._sample = sample
        self.reads: list[SellerId | None] = []
        self.drawings: list[tuple[PanelKey, ViewerRights]] = []
        self.is_down = False

    def load_scene(self, seller: SellerId | None) -> Scene:
        self.reads.append(seller)
        if self.is_down:
            raise StoreError("it is gone")
        return Scene(overview=status(seller_or_operator(self._sample.app, "tester", seller)))

    def draw(self, key: PanelKey, snapshot: Snapshot, rights: ViewerRights) -> str:
        self.drawings.append((key, rights))
        return f"{key.view} {rights.can_write} {snapshot.error} {snapshot.scene is not None}"

    def feed(self, real_time: VirtualClock) -> Feed:
        return Feed(
            self._sample.app,
            look=self.load_scene,
            more=lambda _key, _scene: None,
            draw=self.draw,
            refresh_s=1.0,
            real_time=real_time,
        )


@pytest.fixture
def counting_feed(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> CountingFeed:
    return CountingFeed(create_sample(pool, clock, tmp_path))


def watch(feed: Feed, key: PanelKey, rights: ViewerRights) -> Drawing:
    return feed.drawing(key, rights)


def test_two_hundred_viewers_cost_one_read_and_one_drawing_per_refresh(
    counting_feed: CountingFeed, clock: VirtualClock
) -> None:
    feed = counting_feed.feed(clock)
    for refresh in range(1, 4):
        with ThreadPoolExecutor(32) as crowd:
            drawn = list(crowd.map(lambda _: watch(feed, NOW, WRITER), range(VIEWERS)))
        assert len(drawn) == VIEWERS
        assert len(counting_feed.reads) == refresh
        assert len(counting_feed.drawings) == refresh
        clock.sleep(1.5)


def test_views_share_one_read_and_each_set_of_rights_has_its_own_drawing(
    counting_feed: CountingFeed, clock: VirtualClock
) -> None:
    feed = counting_feed.feed(clock)
    for key in (NOW, PanelKey(view="changes"), PanelKey(view="trouble")):
        for rights in (READER, WRITER):
            assert watch(feed, key, rights).html.startswith(f"{key.view} {rights.can_write}")
    assert len(counting_feed.reads) == 1
    assert len(counting_feed.drawings) == 6


def test_a_seller_sees_only_its_own_scene(counting_feed: CountingFeed, clock: VirtualClock) -> None:
    feed = counting_feed.feed(clock)
    watch(feed, NOW, WRITER)
    watch(feed, PanelKey(view="now", seller=ACME), WRITER)
    assert counting_feed.reads == [None, ACME]


def test_during_a_read_other_viewers_get_the_last_drawing(
    counting_feed: CountingFeed, clock: VirtualClock
) -> None:
    feed = counting_feed.feed(clock)
    first = watch(feed, NOW, WRITER)
    clock.sleep(2)
    begun, go_on = threading.Event(), threading.Event()
    plain = counting_feed.draw

    def slow_draw(key: PanelKey, snapshot: Snapshot, rights: ViewerRights) -> str:
        begun.set()
        assert go_on.wait(20)
        return plain(key, snapshot, rights)

    feed._draw = slow_draw
    with ThreadPoolExecutor(1) as reader:
        newer = reader.submit(feed.drawing, NOW, WRITER)
        assert begun.wait(20)
        try:
            assert feed.drawing(NOW, WRITER) is first
        finally:
            go_on.set()
        assert newer.result(20) is not first


def test_in_an_outage_the_last_scene_is_kept_with_the_time_it_began(
    counting_feed: CountingFeed, clock: VirtualClock
) -> None:
    feed = counting_feed.feed(clock)
    watch(feed, NOW, WRITER)
    counting_feed.is_down = True
    clock.sleep(2)
    began = clock.now()
    assert watch(feed, NOW, WRITER).is_down
    clock.sleep(60)
    snapshot = feed.newest(NOW)
    assert (snapshot.error, snapshot.since) == ("it is gone", began)
    assert snapshot.scene is not None
    assert snapshot.overview is None, "nobody takes what was for what is"
    counting_feed.is_down = False
    clock.sleep(2)
    assert not watch(feed, NOW, WRITER).is_down


def test_an_unwatched_view_is_dropped(counting_feed: CountingFeed, clock: VirtualClock) -> None:
    feed = counting_feed.feed(clock)
    for number in range(50):
        watch(feed, PanelKey(view="part", subject=str(number)), WRITER)
    clock.sleep(120)
    watch(feed, PanelKey(view="part", subject="one more"), WRITER)
    assert len(feed._entries) <= 3


def test_an_event_keeps_every_line_of_its_text() -> None:
    assert as_event("<p>\n  one\n\n</p>\n") == "data: <p>\ndata: one\ndata: </p>\n\n"


def test_a_slow_view_keeps_the_age_of_its_scene(
    counting_feed: CountingFeed, clock: VirtualClock
) -> None:
    feed = counting_feed.feed(clock)

    def slow_draw(_key: PanelKey, scene: Scene) -> object:
        if len(counting_feed.reads) == 1:
            clock.sleep(1.5)
            feed.newest()
        return scene

    feed._more = slow_draw
    old = feed.newest(NOW)
    assert len(counting_feed.reads) == 2, "another scene was read meanwhile"
    assert feed.newest(NOW).scene is not old.scene
