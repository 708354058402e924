"""What the screens show, read at most once per interval and drawn once, however many watch.

A key names a view, whose data it shows, and what it is about. Of each key there is one reader:
while it reads, everybody else is served the last look. A look that fails keeps the last good one,
so that a screen can show what was known, and since when nothing is.
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

# Nobody has asked for it for that long: it is forgotten.
FORGOTTEN_S = 60.0
UNKNOWN = "nobody can be let in before it does"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardKey:
    """What is looked at: a view, behind a seller's wall or none, perhaps of one part."""

    view: str
    seller: SellerId | None = None
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerRights:
    """What the watcher may do, as far as the drawing differs by it."""

    can_write: bool = False
    can_operate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What every view shows something of."""

    overview: Overview
    alerts: tuple[Alert, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One look at the database, and what its view shows besides the scene.

    With an `error` it is the last good look, if there was any; `since` is when the trouble began.
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
    """A sight as it is sent: the board, and the same as one server-sent event."""

    html: str
    event: str
    is_down: bool


Look = Callable[[SellerId | None], Scene]
More = Callable[[BoardKey, Scene], object]
Draw = Callable[[BoardKey, Snapshot, ViewerRights], str]
# Read once for all the views that show something of it.
SCENE = "scene"
START = BoardKey(view=SCENE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    """A sight, and its drawings as far as somebody asked for them."""

    snapshot: Snapshot
    drawings: dict[ViewerRights, Drawing]


@dataclass(slots=True, kw_only=True)
class _Place:
    """The last sight of one key, and the lock of whoever is reading or drawing."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    last: _Last | None = None
    read_at_s: float = 0.0
    asked_at_s: float = 0.0


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
        wall: Clock | None = None,
    ) -> None:
        self.refresh_s = refresh_s
        self._clock = app.clock
        self._look = look
        self._more = more
        self._draw = draw
        # How often a screen is drawn anew is real time, whatever clock the engine runs on.
        self._wall = wall or SystemClock()
        self._lock = threading.Lock()
        self._places: dict[BoardKey, _Place] = {}

    def newest(self, key: BoardKey = START) -> Snapshot:
        """Return a young look; while somebody else is reading, the last one serves."""
        return self._newest(self._place(key), key).snapshot

    def look(self, key: BoardKey) -> None:
        """See to it that there is a young look; waits for whoever is reading."""
        self._newest(self._place(key), key, is_patient=True)

    def due_in_s(self, key: BoardKey) -> float:
        """Return for how long the last look stays young."""
        return self._place(key).read_at_s + self.refresh_s - self._wall.monotonic()

    def drawn(self, key: BoardKey, rights: ViewerRights) -> Drawing:
        """Return a young look, drawn for these rights; waits for whoever is at it."""
        self.look(key)
        return self.drawing(key, rights)

    def drawing(self, key: BoardKey, rights: ViewerRights) -> Drawing:
        """Return a young look, drawn for these rights; while one is made, the last one serves."""
        place = self._place(key)
        last = self._newest(place, key)
        drawn = last.drawings.get(rights)
        if drawn is not None:
            return drawn
        with place.lock:
            if rights not in last.drawings:
                last.drawings[rights] = self._drawn(key, last.snapshot, rights)
            return last.drawings[rights]

    def nothing(self, key: BoardKey) -> Drawing:
        """Return what somebody sees who cannot be known while there is no database."""
        return self._drawn(
            key, Snapshot(scene=None, error=UNKNOWN, since=self._clock.now()), ViewerRights()
        )

    def _place(self, key: BoardKey) -> _Place:
        now_s = self._wall.monotonic()
        with self._lock:
            place = self._places.get(key)
            if place is None:
                old = [
                    each
                    for each, other in self._places.items()
                    if now_s - other.asked_at_s > FORGOTTEN_S and not other.lock.locked()
                ]
                for each in old:
                    del self._places[each]
                place = self._places[key] = _Place()
            place.asked_at_s = now_s
            return place

    def _is_young(self, place: _Place) -> bool:
        return self._wall.monotonic() - place.read_at_s < self.refresh_s

    def _newest(self, place: _Place, key: BoardKey, *, is_patient: bool = False) -> _Last:
        has_lock = place.lock.acquire(blocking=is_patient or place.last is None)
        if not has_lock:
            assert place.last is not None
            return place.last
        try:
            last = place.last
            if last is None or not self._is_young(place):
                scene_at_s = self._scene_at_s(key)
                snapshot = self._read(key, last.snapshot if last else None)
                # Whoever watched is served at once; a first watcher of other rights asks for it.
                drawings = {
                    rights: self._drawn(key, snapshot, rights)
                    for rights in (last or NOBODY).drawings
                }
                last = place.last = _Last(snapshot=snapshot, drawings=drawings)
                place.read_at_s = self._wall.monotonic() if scene_at_s is None else scene_at_s
            return last
        finally:
            place.lock.release()

    def _drawn(self, key: BoardKey, snapshot: Snapshot, rights: ViewerRights) -> Drawing:
        html = self._draw(key, snapshot, rights)
        return Drawing(html=html, event=as_event(html), is_down=bool(snapshot.error))

    def _read(self, key: BoardKey, last: Snapshot | None) -> Snapshot:
        try:
            scene = self._scene(key)
            more = None if key.view == SCENE else self._more(key, scene)
        except StoreError as trouble:
            since = last.since if last is not None and last.error else self._clock.now()
            return Snapshot(
                scene=last.scene if last else None,
                more=last.more if last else None,
                error=str(trouble),
                since=since,
            )
        return Snapshot(scene=scene, more=more)

    def _scene_at_s(self, key: BoardKey) -> float | None:
        """Return when the scene was read that a view is about to show; None for a scene itself.

        A view is as old as its scene, so that no delay is added to another. Asked before, because
        a slow view may show a scene that is no longer the newest.
        """
        if key.view == SCENE:
            return None
        scene = BoardKey(view=SCENE, seller=key.seller)
        self.newest(scene)
        return self._place(scene).read_at_s

    def _scene(self, key: BoardKey) -> Scene:
        if key.view == SCENE:
            return self._look(key.seller)
        snapshot = self.newest(BoardKey(view=SCENE, seller=key.seller))
        if snapshot.scene is None or snapshot.error:
            raise StoreError(snapshot.error)
        return snapshot.scene


def as_event(html: str) -> str:
    """Write text as one server-sent event."""
    lines = (line.strip() for line in html.splitlines())
    return "".join(f"data: {line}\n" for line in lines if line) + "\n"
