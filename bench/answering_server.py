"""The provider's side: one process that gives every request one valid reply, and counts.

It reads HTTP/1.1 no further than it must, so that it is not what is measured.
"""

import asyncio
import json
import multiprocessing
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from bench.services import CLOCK
from headway.config.supplier_fields import PATHS
from headway.providers.shopify.api import VERSION_HEADER, ShopAccess
from headway.providers.shopify.api_version import DEFAULT_VERSION
from headway.store.server.launch import HOST

ARRIVALS_MAX = 1_000_000
CLIENTS = 4
PATIENCE_S = 30
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
BUCKET = {"maximumAvailable": 2000, "currentlyAvailable": 1990, "restoreRate": 100}
COST = {"requestedQueryCost": 10, "actualQueryCost": 10, "throttleStatus": BUCKET}
BODY = json.dumps(
    {"data": {"inventorySetQuantities": {"userErrors": []}}, "extensions": {"cost": COST}}
).encode()
ANSWER = (
    f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{VERSION_HEADER}: {DEFAULT_VERSION}\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n"
).encode() + BODY


QUOTE = {
    "listPrice": 10.0,
    "netPrice": 8.0,
    "quantity": 5,
    "inStock": True,
    "locationAvailabilities": [{"location": "Miami FL", "availQuantity": 5}],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderServer:
    """The server, as the benchmark sees it: its address, and when each call arrived."""

    port: int
    pid: int
    arrivals: Any  # seconds, `count` of them
    count: Any

    @property
    def url(self) -> str:
        """Return the URL of the server."""
        return f"http://{HOST}:{self.port}"

    @property
    def calls(self) -> int:
        """Return how many calls have arrived."""
        return int(self.count.value)

    def span_s(self, begun: int, ended: int) -> float:
        """Return the seconds from one call to another, by their numbers."""
        return float(self.arrivals[ended - 1] - self.arrivals[begun])


@contextmanager
def open_provider() -> Iterator[ProviderServer]:
    """Start the server; it ends with this process."""
    context = multiprocessing.get_context("spawn")
    arrivals = context.Array("d", ARRIVALS_MAX, lock=False)
    count = context.Value("q", 0, lock=False)
    parent, child = context.Pipe()
    process = context.Process(target=_serve, args=(child, arrivals, count), daemon=True)
    process.start()
    try:
        assert process.pid is not None
        assert parent.poll(PATIENCE_S), "the server does not start"
        yield ProviderServer(port=parent.recv(), pid=process.pid, arrivals=arrivals, count=count)
    finally:
        process.kill()  # it holds nothing that is worth a goodbye
        process.join()


def measure_ceiling(provider: ProviderServer, seconds: float) -> float:
    """Return how many calls a second it answers to a bare client, a new connection for each."""
    end, begun = CLOCK.monotonic() + seconds, provider.calls
    head = f"POST {ShopAccess().path} HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
    request = f"{head}{{}}".encode()

    def send_call() -> None:
        while CLOCK.monotonic() < end:
            with socket.create_connection((HOST, provider.port)) as call:
                call.sendall(request)
                while call.recv(4096):
                    pass

    threads = [threading.Thread(target=send_call) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (provider.calls - begun) / seconds


def _quoted(body: bytes) -> bytes:
    """Answer as a supplier: with a price for each part."""
    lines = [{**QUOTE, "aviallPartNumber": sku} for sku in json.loads(body)["productCodes"]]
    payload = json.dumps({"currency": "USD", "lineItems": lines}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}"
    return f"{head}\r\n\r\n".encode() + payload


# -- in its own process ------------------------------------------------------------------------


class _Call(asyncio.Protocol):
    def __init__(self, arrivals: Any, count: Any) -> None:  # noqa: ANN401 - shared memory
        self._arrivals, self._count = arrivals, count
        self._buffer = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for the reply."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Reply as soon as a request is complete."""
        self._buffer += data
        while (head_ends := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:head_ends]
            match = LENGTH.search(head)
            ends = head_ends + 4 + (int(match[1]) if match else 0)
            if len(self._buffer) < ends:
                return
            body, self._buffer = self._buffer[head_ends + 4 : ends], self._buffer[ends:]
            self._arrivals[self._count.value % ARRIVALS_MAX] = CLOCK.monotonic()
            self._count.value += 1
            self._transport.write(_quoted(body) if PATHS["price"].encode() in head else ANSWER)
            if CLOSE.search(head):
                self._transport.close()
                return


def _serve(line: Connection, arrivals: Any, count: Any) -> None:  # noqa: ANN401 - shared memory
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent notices, and ends us

    async def listen() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: _Call(arrivals, count), HOST, 0, backlog=1024, reuse_address=True
        )
        line.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(listen())
