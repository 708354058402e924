"""A furnished room, its site, and those who ask there."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from tests.operations.room import ACME, Room, furnish
from tests.web.api_requests import Asking
from tests.web.keys import shown
from tests.web.login_requests import OPS, Open

from headway.app import build
from headway.config import Settings
from headway.core.access import Role
from headway.store.access.keys import ApiKeys
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def room(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Room:
    return furnish(pool, clock, tmp_path)


@pytest.fixture
def site(room: Room) -> FastAPI:
    return create(room.app, refresh_s=0)


@pytest.fixture
def operator(site: FastAPI, pool: ConnectionPool) -> Asking:
    return Asking(site, headers=shown(pool))


@pytest.fixture
def seller(site: FastAPI, pool: ConnectionPool) -> Asking:
    return Asking(site, headers=shown(pool, Role.SELLER, ACME))


@pytest.fixture
def open_site(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Iterator[Open]:
    """Serve a site with these settings; people live by the test's clock."""
    started: list[tuple[SiteServer, httpx.Client]] = []

    def start(**settings: object) -> httpx.Client:
        app = build(Settings.model_validate({"data_dir": tmp_path, **settings}), clock, pool)
        taken = listen("127.0.0.1", 0)
        proxies = app.settings.trusted_proxies
        serving = SiteServer(create(app, wall=clock), taken, proxies=proxies)
        serving.start()
        client = httpx.Client(base_url=address(taken), timeout=20, trust_env=False)
        started.append((serving, client))
        return client

    yield start
    for serving, client in started:
        client.close()
        serving.stop()


@pytest.fixture
def access(pool: ConnectionPool) -> ApiKeys:
    return ApiKeys(pool)


@pytest.fixture
def key(access: ApiKeys, clock: VirtualClock) -> str:
    return access.add_key(OPS, now=clock.now())[1]
