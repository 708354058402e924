"""Commands that run twice at one instant on equal databases: locally, and against a server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import TEMPLATE, numbers
from tests.operations.sample import create_sample
from tests.web.keys import auth_headers

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

SAMPLE = "headway_sample"
# So slow that it seems to stand still: the output of two commands can be compared exactly.
FROZEN_SPEED = 1e-9
SETTINGS: dict[str, Any] = {"policy": "rolling", "etsy_day_limit": 100}
NOWHERE = "postgresql://nobody@127.0.0.1:9/none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAndRemote:
    """A local database, an equal one behind a server, and how to run a command on each."""

    run: Callable[..., Any]
    pool: ConnectionPool
    local_pool: ConnectionPool
    url: str
    local_settings: dict[str, str]
    remote_settings: dict[str, str] = field(repr=False)  # the key is in it

    def local(self, *arguments: str) -> Any:
        return self.run(*arguments, **self.local_settings)

    def remote(self, *arguments: str, **settings: str) -> Any:
        return self.run(*arguments, **{**self.remote_settings, **settings})

    def key(self, role: Role = Role.OPERATOR, seller: str | None = None) -> str:
        return auth_headers(self.pool, role, seller)["Authorization"].removeprefix("Bearer ")

    def write(self, sql: str, *values: object) -> None:
        """Execute the same statement in both databases."""
        for pool in (self.local_pool, self.pool):
            with pool.connection() as connection:
                connection.execute(sql, values)


@pytest.fixture(scope="session")
def frozen_clock(postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> ScaledClock:
    """Create the sample database once, to be copied; return the clock frozen at that instant."""
    at = SystemClock().now()
    clock = ScaledClock(FROZEN_SPEED, start=at)
    postgres.ensure_database(SAMPLE, template=TEMPLATE)
    with open_pool(postgres.dsn(SAMPLE)) as pool:
        create_sample(pool, clock, tmp_path_factory.mktemp("sample"))
    return clock


@contextmanager
def copy_of_sample(postgres: EmbeddedServer) -> Iterator[tuple[str, ConnectionPool]]:
    name = f"test_{next(numbers)}"
    postgres.ensure_database(name, template=SAMPLE)
    with open_pool(postgres.dsn(name)) as pool:
        yield name, pool
    postgres.drop_database(name)


@contextmanager
def serve_app(app: App) -> Iterator[str]:
    """Serve an application over a socket; yield its URL."""
    listener = listen("127.0.0.1", 0)
    url = address(listener).rstrip("/")
    server = SiteServer(create(app, refresh_s=0), listener)
    server.start()
    try:
        yield url
    finally:
        server.stop()


@pytest.fixture
def both(
    postgres: EmbeddedServer,
    frozen_clock: ScaledClock,
    on_database: Callable[..., Any],
    tmp_path: Path,
) -> Iterator[LocalAndRemote]:
    clock = {
        "speed": FROZEN_SPEED,
        "start": frozen_clock.start.isoformat(),
        "origin_s": frozen_clock.origin_s,
    }
    settings = Settings(data_dir=tmp_path, **SETTINGS)
    with copy_of_sample(postgres) as (name, local_pool), copy_of_sample(postgres) as (_, pool):
        announcement = {**SETTINGS, "database": name, "data_dir": str(tmp_path)}
        postgres.announce(announcement | {"clock": clock})
        with serve_app(build(settings, frozen_clock, pool)) as url:
            # With this name the audit log of both databases shows the same actor.
            grant = AccessGrant(name=ACTOR, role=Role.OPERATOR)
            _, key = ApiKeys(pool).add_key(grant, now=SystemClock().now())
            with pool.connection() as connection:  # no key was created locally; keep the logs equal
                connection.execute("DELETE FROM sync_audit_log WHERE event_type = 'key_created'")
            yield LocalAndRemote(
                run=on_database,
                pool=pool,
                local_pool=local_pool,
                url=url,
                local_settings={"DATABASE_URL": "", "HEADWAY_DATA_DIR": str(postgres.data_dir)},
                remote_settings={
                    "HEADWAY_SERVER": url,
                    "HEADWAY_API_KEY": key,
                    "DATABASE_URL": NOWHERE,
                },
            )
        postgres.announce({})
