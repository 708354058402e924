"""Commands that are run twice: here, and against a server, over equal databases at one instant."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import TEMPLATE, numbers
from tests.operations.room import furnish
from tests.web.keys import shown

from headway.app import App, build
from headway.cli.target import ACTOR
from headway.clock import ScaledClock, SystemClock
from headway.config import Settings
from headway.core.access import AccessGrant, Role
from headway.store.access.keys import ApiKeys
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway.web.server import SiteServer, address, listen
from headway.web.site import create

ROOM = "headway_room"
# So slow that it stands still: what two commands print may be compared to the last digit.
STILL = 1e-9
SETTINGS: dict[str, Any] = {"policy": "rolling", "etsy_day_limit": 100}
NOWHERE = "postgresql://nobody@127.0.0.1:9/none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Both:
    """A database here and its twin at a server, and how to run a command on each."""

    run: Callable[..., Any]
    pool: ConnectionPool
    here: ConnectionPool
    url: str
    at_home: dict[str, str]
    at_server: dict[str, str] = field(repr=False)  # the key is in it

    def local(self, *arguments: str) -> Any:
        return self.run(*arguments, **self.at_home)

    def remote(self, *arguments: str, **settings: str) -> Any:
        return self.run(*arguments, **{**self.at_server, **settings})

    def key(self, role: Role = Role.OPERATOR, seller: str | None = None) -> str:
        return shown(self.pool, role, seller)["Authorization"].removeprefix("Bearer ")

    def write(self, sql: str, *values: object) -> None:
        """Write the same into both."""
        for pool in (self.here, self.pool):
            with pool.connection() as connection:
                connection.execute(sql, values)


@pytest.fixture(scope="session")
def still(postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> ScaledClock:
    """Furnish a room once, to be copied; return the clock that stands at its instant."""
    at = SystemClock().now()
    clock = ScaledClock(STILL, start=at)
    postgres.ensure_database(ROOM, template=TEMPLATE)
    with open_pool(postgres.dsn(ROOM)) as pool:
        furnish(pool, clock, tmp_path_factory.mktemp("room"))
    return clock


@contextmanager
def copied(postgres: EmbeddedServer) -> Iterator[tuple[str, ConnectionPool]]:
    name = f"test_{next(numbers)}"
    postgres.ensure_database(name, template=ROOM)
    with open_pool(postgres.dsn(name)) as pool:
        yield name, pool
    postgres.drop_database(name)


@contextmanager
def served(app: App) -> Iterator[str]:
    """Serve an application over a socket; yield its address."""
    taken = listen("127.0.0.1", 0)
    url = address(taken).rstrip("/")
    server = SiteServer(create(app, refresh_s=0), taken)
    server.start()
    try:
        yield url
    finally:
        server.stop()


@pytest.fixture
def both(
    postgres: EmbeddedServer,
    still: ScaledClock,
    on_database: Callable[..., Any],
    tmp_path: Path,
) -> Iterator[Both]:
    clock = {"speed": STILL, "start": still.start.isoformat(), "origin_s": still.origin_s}
    settings = Settings(data_dir=tmp_path, **SETTINGS)
    with copied(postgres) as (name, here), copied(postgres) as (_, pool):
        note = {**SETTINGS, "database": name, "data_dir": str(tmp_path)}
        postgres.announce(note | {"clock": clock})
        with served(build(settings, still, pool)) as url:
            # The audit calls whoever has this key what it calls whoever types here.
            grant = AccessGrant(name=ACTOR, role=Role.OPERATOR)
            _, key = ApiKeys(pool).add_key(grant, now=SystemClock().now())
            with pool.connection() as connection:  # here nobody made one, and the logs are equal
                connection.execute("DELETE FROM sync_audit_log WHERE event_type = 'key_created'")
            yield Both(
                run=on_database,
                pool=pool,
                here=here,
                url=url,
                at_home={"DATABASE_URL": "", "HEADWAY_DATA_DIR": str(postgres.data_dir)},
                at_server={
                    "HEADWAY_SERVER": url,
                    "HEADWAY_API_KEY": key,
                    "DATABASE_URL": NOWHERE,
                },
            )
        postgres.announce({})
