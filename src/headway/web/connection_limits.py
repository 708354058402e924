"""Limits on what a sender may hold before its request is complete: headers, time, connections.

The server reads headers without a bound and waits for them without end. Whoever sends endless
headers or opens thousands of connections would leave no memory and no sockets for others.
"""

import asyncio
from collections import Counter
from http import HTTPStatus
from ipaddress import ip_address, ip_network
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_BYTES_MAX = 32_768
HEADER_WAIT_S = 10.0
CONNECTIONS_MAX = 800
PER_ADDRESS_MAX = 100


class ConnectionLimits:
    """What one server allows; addresses of trusted proxies stand for many people."""

    def __init__(self, proxies: list[str], *, header_wait_s: float = HEADER_WAIT_S) -> None:
        self._proxies = [ip_network(proxy) for proxy in proxies]
        self._by_address: Counter[str] = Counter()
        self.header_wait_s = header_wait_s

    def admit(self, address: str) -> bool:
        """Count a connection; return False if there are too many."""
        self._by_address[address] += 1
        if self._by_address.total() > CONNECTIONS_MAX:
            return False
        return self._by_address[address] <= PER_ADDRESS_MAX or self._is_proxy(address)

    def leave(self, address: str) -> None:
        """Count a connection that has ended."""
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def protocol(self, *args: Any, **values: Any) -> "LimitedProtocol":  # noqa: ANN401 - uvicorn's
        """Make the protocol of one connection."""
        return LimitedProtocol(self, *args, **values)

    def _is_proxy(self, address: str) -> bool:
        return any(ip_address(address) in network for network in self._proxies if address)


class LimitedProtocol(HttpToolsProtocol):
    """One connection: it ends if its headers are too large or too slow."""

    def __init__(self, limits: ConnectionLimits, *args: Any, **values: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **values)
        self._limits = limits
        self._address = ""
        self._header_bytes = 0
        self._is_reading_headers = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, or close it at once."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._await_headers()
        if not self._limits.admit(self._address):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no longer."""
        self._limits.leave(self._address)
        self._end_wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data to the parser, and stop at headers without an end."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._is_reading_headers:
            self._count(len(data))

    def on_message_begin(self) -> None:
        """Start to read headers: at once on a new connection, later on one that was kept."""
        super().on_message_begin()
        self._await_headers()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, unless there are too many already."""
        if not self.transport.is_closing():
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Answer the request, unless its headers are too large."""
        self._is_reading_headers = False
        self._end_wait()
        self._count(sum(len(name) + len(value) for name, value in self.headers) + len(self.url))
        if not self.transport.is_closing():
            super().on_headers_complete()

    def _await_headers(self) -> None:
        self._is_reading_headers, self._header_bytes = True, 0
        if self._deadline is None:
            self._deadline = self.loop.call_later(
                self._limits.header_wait_s, self._refuse, HTTPStatus.REQUEST_TIMEOUT
            )

    def _end_wait(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADER_BYTES_MAX:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _refuse(self, status: HTTPStatus) -> None:
        if self.transport.is_closing():
            return
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close"
        self.transport.write(f"{head}\r\n\r\n".encode())
        self.transport.close()
