"""A furnished room, its site, and those who ask there."""

from pathlib import Path

import pytest
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from tests.app.room import ACME, Room, furnish
from tests.web.asking import Asking
from tests.web.keys import shown

from headway.clock import VirtualClock
from headway.core.access import Role
from headway.web.site import create


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
