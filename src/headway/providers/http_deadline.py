"""A network layer under httpx that keeps one call within one deadline.

httpx bounds each read, not the whole: a server that drips a byte now and then could hold a worker
for days. Here every connect, write and read gets only what is left. A request whose first byte
would leave too late is not sent at all, because the limiter counted on its early arrival.
"""

import functools
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore
import httpx

from headway.clock import Clock

SEND_WITHIN_S = 2.5
# Returns the addresses that may be tried for a host, in this order.
Resolver = Callable[[str, int], Sequence[str]]


class DeadlineTransport(httpx.HTTPTransport):
    """The real network: one connection for one request, all of it within `timeout_s`.

    With `resolve`, connections go to the very addresses that it returned; the name stays that of
    the certificate.
    """

    def __init__(
        self, *, clock: Clock, timeout_s: float, speed: float, resolve: Resolver | None = None
    ) -> None:
        context = _trusted_roots()
        super().__init__(verify=context)
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_keepalive_connections=0,
            network_backend=_Backend(
                clock=clock, timeout_s=timeout_s, speed=speed, resolve=resolve
            ),
        )


@functools.cache
def _trusted_roots() -> ssl.SSLContext:
    """Read the trusted roots once: it takes 20 ms, and a worker opens a client for every shop."""
    return httpx.create_ssl_context(trust_env=False)


class _Deadline:
    """The time left for one call, in real seconds, which sockets use."""

    def __init__(self, *, clock: Clock, timeout_s: float, speed: float) -> None:
        self._clock = clock
        self._speed = speed
        self._send_by_s = clock.monotonic() + min(SEND_WITHIN_S, timeout_s)
        self._end_by_s = clock.monotonic() + timeout_s
        self._is_sent = False

    def connect(self) -> float:
        """Return the time left for connecting."""
        return self._left(self._send_by_s, httpcore.ConnectTimeout)

    def write(self) -> float:
        """Return the time left for writing; a first byte that is late is not sent."""
        if not self._is_sent:
            self._left(self._send_by_s, httpcore.ConnectTimeout)
            self._is_sent = True
        return self._left(self._end_by_s, httpcore.WriteTimeout)

    def read(self) -> float:
        """Return the time left for the reply."""
        return self._left(self._end_by_s, httpcore.ReadTimeout)

    def _left(self, by_s: float, late: type[Exception]) -> float:
        left_s = (by_s - self._clock.monotonic()) / self._speed
        if left_s <= 0:
            raise late("the call's deadline has passed")
        return left_s


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: _Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _lesser(timeout, self._deadline.read()))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer:
            self._inner.write(buffer, _lesser(timeout, self._deadline.write()))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        timeout = _lesser(timeout, self._deadline.connect())
        inner = self._inner.start_tls(ssl_context, server_hostname, timeout)
        return _Stream(inner, self._deadline)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - as httpcore has it
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    def __init__(
        self, *, clock: Clock, timeout_s: float, speed: float, resolve: Resolver | None
    ) -> None:
        self._inner = httpcore.SyncBackend()
        self._resolve = resolve
        self._clock = clock
        self._timeout_s = timeout_s
        self._speed = speed

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        # One connection carries one request, so the call begins where its connection does.
        deadline = _Deadline(clock=self._clock, timeout_s=self._timeout_s, speed=self._speed)
        hosts = [host] if self._resolve is None else self._resolve(host, port)
        for number, address in enumerate(hosts, start=1):
            left_s = _lesser(timeout, deadline.connect())
            try:
                inner = self._inner.connect_tcp(
                    address, port, left_s, local_address, socket_options
                )
            except httpcore.ConnectError:
                if number == len(hosts):
                    raise
            else:
                return _Stream(inner, deadline)
        raise httpcore.ConnectError("the host has no address")


def _lesser(timeout: float | None, left_s: float) -> float:
    return left_s if timeout is None else min(timeout, left_s)
