"""Which database a command talks to, and on what clock.

`DATABASE_URL` if it is set; else the embedded server that a demo runs in another terminal, on the
demo's clock, once it has started; else the embedded server, started for as long as the command
lasts. Only a command that begins something makes a database where there is none.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from headway.app import App, build
from headway.clock import Clock, ScaledClock, SystemClock
from headway.config import Settings
from headway.errors import ConfigError
from headway.store.migrate import require_current, upgrade
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer, RunningServer, find_running
from headway.store.server.folder import FolderInUseError, is_owned

DATABASE = "headway"
DEMO_FOLDER = "demo"
POOL_SIZE = 2
# How long to wait for another short command or a `run` that starts, and for a demo, which first
# simulates its past.
WAIT_S, DEMO_WAIT_S = 20.0, 180.0
TELL_S, POLL_S = 1.0, 0.1
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
    creates: bool = True,
    pool_size: int = POOL_SIZE,
) -> Iterator[Session]:
    """Open the database of a command; a schema that is behind is an error unless `migrate`.

    The embedded database is ours alone and is brought up to date without asking. Raises ConfigError
    if there is none yet, unless the command `creates` one.
    """
    if settings.server:  # a change to another database than the one meant must show
        print("headway: this works on the database here, not on HEADWAY_SERVER", file=sys.stderr)
    with _opened(settings, pool_size, creates=creates) as session:
        is_own = settings.database_url is None and not session.is_joined
        if check_schema and (migrate or is_own):
            upgrade(session.app.pool, REAL_TIME)
        elif check_schema:
            require_current(session.app.pool, session.place)
        yield session


@contextmanager
def _opened(settings: Settings, pool_size: int, *, creates: bool) -> Iterator[Session]:
    if settings.database_url is not None:
        dsn = settings.database_url.get_secret_value()
        with open_pool(dsn, size=pool_size) as pool:
            yield Session(app=build(settings, REAL_TIME, pool), place="DATABASE_URL")
        return
    server = _find_or_start(settings.data_dir.expanduser(), creates=creates)
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
        place = "the running Headway"
        page = str(note.get("page", ""))
        yield Session(app=app, place=place, is_joined=True, page=page)


def find_joinable(data_dir: Path) -> RunningServer | None:
    """Return the server of a running Headway, such as a demo in another terminal.

    A server that some command started for itself ends with that command, so only one whose owner
    announced a database may be relied on.
    """
    for folder in _folders(data_dir):
        running = find_running(folder)
        if running is not None and "database" in running.note:
            return running
    return None


def has_database(settings: Settings) -> bool:
    """Return True if a command can open a database without making one."""
    folder = settings.data_dir.expanduser()
    return (
        settings.database_url is not None
        or (folder / "pg").is_dir()
        or any(map(is_owned, _folders(folder)))
    )


def _folders(data_dir: Path) -> tuple[Path, Path]:
    return data_dir, data_dir / DEMO_FOLDER


def _find_or_start(data_dir: Path, *, creates: bool) -> EmbeddedServer | RunningServer:
    """Join a Headway that stays, or take the folder; wait for one that holds it meanwhile.

    Beside a demo that is starting, a database of our own would be another, empty one.
    """
    began, is_told = REAL_TIME.monotonic(), False
    while True:
        joinable = find_joinable(data_dir)
        if joinable is not None:
            return joinable
        busy = next(filter(is_owned, reversed(_folders(data_dir))), None)
        if busy is None:
            if not creates and not (data_dir / "pg").is_dir():
                raise ConfigError(_no_database(data_dir))
            with suppress(FolderInUseError):  # another command was faster
                return _started(data_dir)
        else:
            most_s = WAIT_S if busy == data_dir else DEMO_WAIT_S
            if REAL_TIME.monotonic() - began > most_s:
                raise FolderInUseError(busy)
            if not is_told and REAL_TIME.monotonic() - began > TELL_S:
                text = f"waiting for the Headway that is starting or ending in {busy}"
                print(f"headway: {text}", file=sys.stderr, flush=True)
                is_told = True
        REAL_TIME.sleep(POLL_S)


def _no_database(data_dir: Path) -> str:
    return (
        f"no Headway is running, and there is no database in {data_dir} yet; start one with"
        " headway demo or headway run, or set DATABASE_URL or HEADWAY_DATA_DIR to yours"
    )


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
    if kind is Path:
        return Path(str(value))
    is_secret = kind in {SecretStr, SecretStr | None} and value is not None
    return SecretStr(str(value)) if is_secret else value
