"""Which database a command talks to, and on what clock.

`DATABASE_URL` if it is set; else the embedded server that a demo runs in another terminal, on the
demo's clock; else the embedded server, started for as long as the command lasts.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr, TypeAdapter

from headway.app import App, build
from headway.clock import Clock, ScaledClock, SystemClock
from headway.config import Settings
from headway.errors import ConfigError
from headway.store.migrate import require_current, upgrade
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer, RunningServer, find_running

DATABASE = "headway"
DEMO_FOLDER = "demo"
POOL_SIZE = 2
WAIT_S = 5.0
POLL_S = 0.1
# Settings that a running demo shares with processes that join it. Only its owner can read the
# note, and the secrets are those of the demo's simulators and broker.
SHARED_SETTINGS = (
    "policy", "boeing_client_id", "boeing_client_secret", "boeing_username", "boeing_password",
    "boeing_url", "boeing_timeout_s", "shopify_client_id", "shopify_client_secret", "shopify_url",
    "shopify_timeout_s", "drift_check_h", "etsy_keystring", "etsy_shared_secret", "etsy_url",
    "etsy_day_limit", "printify_url", "platform_timeout_s", "intervals_min", "kind_intervals_min",
    "order_quotas", "data_dir", "broker_url", "ticks",
)  # fmt: skip

# Another process takes real time to finish, whatever clock the engine runs on.
REAL_TIME = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An application over an open database, and where that is, for a person.

    `page` is where a running Headway serves its page; empty where none is known to run.
    """

    app: App
    place: str
    is_joined: bool = False
    page: str = ""


def note_of(settings: Settings, clock: ScaledClock) -> dict[str, object]:
    """Return what a second process needs to join a demo: its clock and its settings."""
    resolved = settings.model_copy(update={"data_dir": settings.data_dir.resolve()})
    return {
        **{name: _plain(getattr(resolved, name)) for name in SHARED_SETTINGS},
        "clock": {
            "speed": clock.speed,
            "start": clock.start.isoformat(),
            "origin_s": clock.origin_s,
        },
    }


@contextmanager
def open_session(
    settings: Settings,
    *,
    migrate: bool = False,
    check_schema: bool = True,
    pool_size: int = POOL_SIZE,
) -> Iterator[Session]:
    """Open the database of a command; a schema that is behind is an error unless `migrate`.

    The embedded database is ours alone and is brought up to date without asking.
    """
    if settings.server:  # a change to another database than the one meant must show
        print("headway: this works on the database here, not on HEADWAY_SERVER", file=sys.stderr)
    with _opened(settings, pool_size) as session:
        is_own = settings.database_url is None and not session.is_joined
        if check_schema and (migrate or is_own):
            upgrade(session.app.pool, REAL_TIME)
        elif check_schema:
            require_current(session.app.pool, session.place)
        yield session


@contextmanager
def _opened(settings: Settings, pool_size: int) -> Iterator[Session]:
    if settings.database_url is not None:
        dsn = settings.database_url.get_secret_value()
        with open_pool(dsn, size=pool_size) as pool:
            yield Session(app=build(settings, REAL_TIME, pool), place="DATABASE_URL")
        return
    server = _find_or_start(settings.data_dir.expanduser())
    if isinstance(server, RunningServer):
        with _joined(settings, server, pool_size) as session:
            yield session
        return
    try:
        with _own(settings, server, pool_size) as session:
            yield session
    finally:
        server.stop()


@contextmanager
def _own(settings: Settings, server: EmbeddedServer, pool_size: int) -> Iterator[Session]:
    server.ensure_database(DATABASE)
    with open_pool(server.dsn(DATABASE), size=pool_size) as pool:
        place = f"embedded in {server.data_dir}"
        yield Session(app=build(settings, REAL_TIME, pool), place=place)


@contextmanager
def _joined(settings: Settings, server: RunningServer, pool_size: int) -> Iterator[Session]:
    note = server.note
    # The demo has a supplier and shops of its own, and a folder with the key to their tokens: what
    # its settings override those of this process.
    overrides = {name: _read(name, note[name]) for name in SHARED_SETTINGS if name in note}
    with open_pool(server.dsn(str(note["database"])), size=pool_size) as pool:
        app = build(settings.model_copy(update=overrides), _clock(note.get("clock")), pool)
        place = "the Headway that is running now"
        page = str(note.get("page", ""))
        yield Session(app=app, place=place, is_joined=True, page=page)


def find_joinable(data_dir: Path) -> RunningServer | None:
    """Return the server of a running Headway, such as a demo in another terminal.

    A server that some command started for itself ends with that command, so only one whose owner
    announced a database may be relied on.
    """
    for folder in (data_dir, data_dir / DEMO_FOLDER):
        running = find_running(folder)
        if running is not None and "database" in running.note:
            return running
    return None


def _find_or_start(data_dir: Path) -> EmbeddedServer | RunningServer:
    """Join a Headway that keeps running, or take the folder; wait for another short command."""
    give_up_at = REAL_TIME.monotonic() + WAIT_S
    while True:
        joinable = find_joinable(data_dir)
        if joinable is not None:
            return joinable
        try:
            return _started(data_dir)
        except ConfigError as error:
            is_busy = "in use by another Headway" in str(error)
            if not is_busy or REAL_TIME.monotonic() > give_up_at:
                raise
        REAL_TIME.sleep(POLL_S)


def _started(data_dir: Path) -> EmbeddedServer:
    server = EmbeddedServer(data_dir, clock=REAL_TIME)
    server.start()
    return server


def _clock(note: Mapping[str, Any] | None) -> Clock:
    if note is None:
        return REAL_TIME
    return ScaledClock(
        float(note["speed"]),
        start=datetime.fromisoformat(note["start"]),
        origin_s=float(note["origin_s"]),
    )


def _plain(value: object) -> object:
    """Write a setting as JSON can hold it."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value) if isinstance(value, Path) else value


def _read(name: str, value: object) -> object:
    """Read a shared setting; a demo's may be outside the bounds for users."""
    kind = Settings.model_fields[name].annotation
    assert kind is not None
    return TypeAdapter(kind).validate_python(value)
