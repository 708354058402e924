"""What the page shows, read at most once per interval and rendered once for all viewers.

A key names a view, the seller whose data it shows, and its subject. Each key has one reader; while
it reads, all others get the last snapshot. If reading fails, the last good snapshot stays, so the
page can show what was known and since when the database has not answered.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from headway.app import App
from headway.clock import Clock, SystemClock
from headway.core.catalog.listings import SellerId
from headway.core.monitoring.alerts import Alert
from headway.errors import StoreError
from headway.store.status import Overview

# A snapshot that was not requested for so long is dropped.
FORGOTTEN_S = 60.0
UNKNOWN = "nobody can be let in before it does"


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelKey:
    """Identifies a panel: a view, the seller (None for the operators' view), and a subject."""

    view: str
    seller: SellerId | None = None
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerRights:
    """The permissions of a viewer that change what is rendered."""

    can_write: bool = False
    can_operate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The data that every view uses."""

    overview: Overview
    alerts: tuple[Alert, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The scene, and what its view shows besides.

    With an `error` it is the last good snapshot, if any; `since` is when the error began.
    """

    scene: Scene | None
    more: object = None
    error: str = ""
    since: datetime | None = None

    @property
    def overview(self) -> Overview | None:
        """The overview, while the database answers."""
        return None if self.scene is None or self.error else self.scene.overview


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A rendered panel: its HTML, and the same as a server-sent event."""

    html: str
    event: str
    is_down: bool


Look = Callable[[SellerId | None], Scene]
More = Callable[[PanelKey, Scene], object]
Draw = Callable[[PanelKey, Snapshot, ViewerRights], str]
# Read once for all the views that show something of it.
SCENE = "scene"
START = PanelKey(view=SCENE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    """A snapshot, and its drawings for the rights that were requested."""

    snapshot: Snapshot
    drawings: dict[ViewerRights, Drawing]


@dataclass(slots=True, kw_only=True)
class _Entry:
    """The last snapshot of one key, and the lock for reading and rendering it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    last: _Last | None = None
    read_at_s: float = 0.0
    requested_at_s: float = 0.0


NOBODY = _Last(snapshot=Snapshot(scene=None), drawings={})


class Feed:
    """One reader of each key, for all viewers."""

    def __init__(
        self,
        app: App,
        *,
        look: Look,
        more: More,
        draw: Draw,
        refresh_s: float = 1.0,
        real_time: Clock | None = None,
    ) -> None:
        self.refresh_s = refresh_s
        self._clock = app.clock
        self._look = look
        self._more = more
        self._draw = draw
        # The refresh interval is in real time, whatever clock the engine runs on.
        self._real_time = real_time or SystemClock()
        self._lock = threading.Lock()
        self._entries: dict[PanelKey, _Entry] = {}

    def newest(self, key: PanelKey = START) -> Snapshot:
        """Return a recent snapshot; while another thread reads, the last one."""
        return self._newest(self._entry(key), key).snapshot

    def look(self, key: PanelKey) -> None:
        """Read a snapshot if the last one is too old; waits for a thread that is reading."""
        self._newest(self._entry(key), key, is_patient=True)

    def due_in_s(self, key: PanelKey) -> float:
        """Return for how many seconds the last snapshot stays recent."""
        return self._entry(key).read_at_s + self.refresh_s - self._real_time.monotonic()

    def drawn(self, key: PanelKey, rights: ViewerRights) -> Drawing:
        """Return a recent drawing for these rights; waits for a thread that is making it."""
        self.look(key)
        return self.drawing(key, rights)

    def drawing(self, key: PanelKey, rights: ViewerRights) -> Drawing:
        """Return a recent drawing for these rights; while a new one is made, the last one."""
        entry = self._entry(key)
        last = self._newest(entry, key)
        drawn = last.drawings.get(rights)
        if drawn is not None:
            return drawn
        with entry.lock:
            if rights not in last.drawings:
                last.drawings[rights] = self._drawn(key, last.snapshot, rights)
            return last.drawings[rights]

    def nothing(self, key: PanelKey) -> Drawing:
        """Return the drawing for an unknown visitor while the database does not answer."""
        return self._drawn(
            key, Snapshot(scene=None, error=UNKNOWN, since=self._clock.now()), ViewerRights()
        )

    def _entry(self, key: PanelKey) -> _Entry:
        now_s = self._real_time.monotonic()
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                old = [
                    other
                    for other, unused in self._entries.items()
                    if now_s - unused.requested_at_s > FORGOTTEN_S and not unused.lock.locked()
                ]
                for other in old:
                    del self._entries[other]
                entry = self._entries[key] = _Entry()
            entry.requested_at_s = now_s
            return entry

    def _is_recent(self, entry: _Entry) -> bool:
        return self._real_time.monotonic() - entry.read_at_s < self.refresh_s

    def _newest(self, entry: _Entry, key: PanelKey, *, is_patient: bool = False) -> _Last:
        has_lock = entry.lock.acquire(blocking=is_patient or entry.last is None)
        if not has_lock:
            assert entry.last is not None
            return entry.last
        try:
            last = entry.last
            if last is None or not self._is_recent(entry):
                scene_at_s = self._scene_at_s(key)
                snapshot = self._read(key, last.snapshot if last else None)
                # Render for the rights that were requested before.
                drawings = {
                    rights: self._drawn(key, snapshot, rights)
                    for rights in (last or NOBODY).drawings
                }
                last = entry.last = _Last(snapshot=snapshot, drawings=drawings)
                entry.read_at_s = self._real_time.monotonic() if scene_at_s is None else scene_at_s
            return last
        finally:
            entry.lock.release()

    def _drawn(self, key: PanelKey, snapshot: Snapshot, rights: ViewerRights) -> Drawing:
        html = self._draw(key, snapshot, rights)
        return Drawing(html=html, event=as_event(html), is_down=bool(snapshot.error))

    def _read(self, key: PanelKey, last: Snapshot | None) -> Snapshot:
        try:
            scene = self._scene(key)
            more = None if key.view == SCENE else self._more(key, scene)
        except StoreError as error:
            since = last.since if last is not None and last.error else self._clock.now()
            return Snapshot(
                scene=last.scene if last else None,
                more=last.more if last else None,
                error=str(error),
                since=since,
            )
        return Snapshot(scene=scene, more=more)

    def _scene_at_s(self, key: PanelKey) -> float | None:
        """Return when the scene of a view was read; None for a scene itself.

        A view is as old as its scene, so delays do not add up. Called before the view is read: a
        slow view may show a scene that is no longer the newest.
        """
        if key.view == SCENE:
            return None
        scene = PanelKey(view=SCENE, seller=key.seller)
        self.newest(scene)
        return self._entry(scene).read_at_s

    def _scene(self, key: PanelKey) -> Scene:
        if key.view == SCENE:
            return self._look(key.seller)
        snapshot = self.newest(PanelKey(view=SCENE, seller=key.seller))
        if snapshot.scene is None or snapshot.error:
            raise StoreError(snapshot.error)
        return snapshot.scene


def as_event(html: str) -> str:
    """Write text as one server-sent event."""
    lines = (line.strip() for line in html.splitlines())
    return "".join(f"data: {line}\n" for line in lines if line) + "\n"
