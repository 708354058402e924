"""A supplier simulated twice, in process and over real sockets, and a connector in front of it."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest
from psycopg_pool import ConnectionPool

from headway.clock import Clock, ScaledClock
from headway.config import Settings
from headway.providers.boeing.api import api_of
from headway.providers.boeing.client import BoeingSupplier
from headway.providers.boeing.settings import BoeingAccess
from headway.providers.vault import Vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.boeing import BoeingSimulator, SupplierPart
from headway_lab.simulators.transport import SimTransport, serve
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
SECRETS = ("sim-client-secret", "sim-password")


class Shelves:
    """A catalogue of a few parts."""

    def __init__(self) -> None:
        self.parts = {
            f"WF{number}=K3": SupplierPart(
                sku=f"WF{number}=K3",
                list_price=Decimal("20.50") + number,
                net_price=Decimal("10.25") + number,
                stock={"Dallas Central": number, "Miami FL": 3},
            )
            for number in range(40)
        }

    def lookup(self, sku: str) -> SupplierPart | None:
        return self.parts.get(sku)


@dataclass(kw_only=True)
class Rig:
    """Builds suppliers and workers that share one clock, one database and one way to travel."""

    kind: str
    clock: Clock
    pool: ConnectionPool
    stack: contextlib.ExitStack
    urls: dict[int, str] = field(default_factory=dict)

    def supplier(self, **options: Any) -> BoeingSimulator:
        simulator = BoeingSimulator(Shelves(), self.clock, **{"limit": 1000, **options})
        if self.kind == "sockets":
            server = self.stack.enter_context(serve(simulator.handle, self.clock))
            self.urls[id(simulator)] = server.url
        return simulator

    def worker(
        self,
        simulator: BoeingSimulator,
        **options: Any,
    ) -> BoeingSupplier:
        access = BoeingAccess(
            client_id="sim-client",
            client_secret=options.pop("client_secret", "sim-client-secret"),
            username="sim-user",
            password=options.pop("password", "sim-password"),
        )
        transport: httpx.BaseTransport | None = SimTransport(simulator.handle, self.clock)
        if self.kind == "sockets":
            transport = None
        connector = BoeingSupplier(
            self.urls.get(id(simulator), "http://boeing.test"),
            access,
            token_store=Credentials(self.pool),
            vault=Vault([KEY]),
            clock=self.clock,
            api=options.pop("api", api_of(Settings())),
            transport=transport,
            **options,
        )
        self.stack.callback(connector.close)
        return connector

    def sign_in(self, connector: BoeingSupplier) -> None:
        while (step := connector.auth_step()) is not None:
            assert connector.authenticate(step)


@pytest.fixture(params=("in process", "sockets"))
def rig(request: pytest.FixtureRequest, pool: ConnectionPool) -> Iterator[Rig]:
    clock = VirtualClock(START) if request.param == "in process" else ScaledClock(10, start=START)
    with contextlib.ExitStack() as stack:
        yield Rig(kind=request.param, clock=clock, pool=pool, stack=stack)


@pytest.fixture
def virtual_rig(pool: ConnectionPool) -> Iterator[Rig]:
    with contextlib.ExitStack() as stack:
        yield Rig(kind="in process", clock=VirtualClock(START), pool=pool, stack=stack)


@pytest.fixture
def raw_server() -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """Start a server that reads one request and then treats the connection as the test chooses."""
    with contextlib.ExitStack() as stack:

        def start(act: Callable[[socket.socket], None]) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def work() -> None:
                with contextlib.suppress(OSError), listener.accept()[0] as connection:
                    connection.recv(65_536)
                    act(connection)

            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(listener.close)
            return f"http://127.0.0.1:{listener.getsockname()[1]}"

        yield start
