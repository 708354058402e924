"""The sample deployment, its site and clients of each role."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS
from tests.operations.sample import ACME, SampleDeployment, create_sample
from tests.web.api_requests import ApiClient
from tests.web.keys import auth_headers
from tests.web.login_requests import OPS, OpenSite

from headway.app import build
from headway.config import Settings
from headway.core.access import Role
from headway.store.access.keys import ApiKeys
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def sample(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> SampleDeployment:
    return create_sample(pool, clock, tmp_path)


@pytest.fixture
def site(sample: SampleDeployment) -> FastAPI:
    return create(sample.app, refresh_s=0)


@pytest.fixture
def operator(site: FastAPI, pool: ConnectionPool) -> ApiClient:
    return ApiClient(site, headers=auth_headers(pool))


@pytest.fixture
def seller(site: FastAPI, pool: ConnectionPool) -> ApiClient:
    return ApiClient(site, headers=auth_headers(pool, Role.SELLER, ACME))


@pytest.fixture
def open_site(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Iterator[OpenSite]:
    """Serve a site with these settings; sessions use the test's clock."""
    started: list[tuple[SiteServer, httpx.Client]] = []

    def start(**settings: object) -> httpx.Client:
        app = build(Settings.model_validate({"data_dir": tmp_path, **settings}), clock, pool)
        listener = listen("127.0.0.1", 0)
        proxies = app.settings.trusted_proxies
        server = SiteServer(create(app, real_time=clock), listener, proxies=proxies)
        server.start()
        client = httpx.Client(
            base_url=address(listener), timeout=HTTP_TIMEOUT_S, trust_env=False, verify=NO_ROOTS
        )
        started.append((server, client))
        return client

    yield start
    for server, client in started:
        client.close()
        server.stop()


@pytest.fixture
def access(pool: ConnectionPool) -> ApiKeys:
    return ApiKeys(pool)


@pytest.fixture
def key(access: ApiKeys, clock: VirtualClock) -> str:
    return access.add_key(OPS, now=clock.now())[1]
