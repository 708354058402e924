"""The same simulator in process, on any clock, and over real HTTP on the loopback."""

import contextlib
import errno
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from headway.clock import Clock, rng
from headway.errors import ConfigError
from headway_lab.simulators.reply import Handle, SimReply
from headway_lab.virtual_clock import VirtualClock

HANG_S_MAX = 300.0
BODY_BYTES_MAX = 110_000_000
HOST = "127.0.0.1"
# How long a request travels.
NETWORK_S = (0.005, 0.12)


class SimTransport(httpx.BaseTransport):
    """Carries requests to a simulator in this process; time passes on the clock only."""

    def __init__(
        self,
        handle: Handle,
        clock: Clock,
        *,
        seed: int = 0,
        network_s: tuple[float, float] = NETWORK_S,
    ) -> None:
        self._handle = handle
        self._clock = clock
        self._generator = rng(f"network {seed}")
        self._network_s = network_s

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Deliver the request, handle it, and deliver the reply."""
        body = request.read()
        self._clock.sleep(self._generator.uniform(*self._network_s))
        target = request.url.raw_path.decode("ascii")
        reply = self._handle(request.method, target, dict(request.headers), body)
        if reply.outcome == "refuse":
            raise httpx.ConnectError("connection refused", request=request)
        self._await(reply, request)
        if reply.outcome == "drop":
            raise httpx.RemoteProtocolError("peer closed the connection", request=request)
        headers = {**reply.headers, "Content-Length": str(len(reply.body))}
        return httpx.Response(reply.status, headers=headers, stream=_Body(reply.body))

    def _await(self, reply: SimReply, request: httpx.Request) -> None:
        patience_s = request.extensions.get("timeout", {}).get("read")
        if patience_s is None:
            patience_s = HANG_S_MAX
        if reply.outcome == "hang" or reply.delay_s > patience_s:
            self._clock.sleep(patience_s)
            raise httpx.ReadTimeout("silence", request=request)
        self._clock.sleep(reply.delay_s)


class _Body(httpx.SyncByteStream):
    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        yield self._body


class SimServer:
    """A simulator behind a real socket; leave the `with`, or call `stop`, to end it."""

    def __init__(self, server: "_Server") -> None:
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The address of the simulator."""
        return f"http://{HOST}:{self.port}"

    def stop(self) -> None:
        """Take no more calls, and wake those that hang."""
        self._server.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def serve(handle: Handle, clock: Clock, *, port: int = 0) -> SimServer:
    """Serve a simulator on the loopback; port 0 takes a free one. Raises ConfigError."""
    assert not isinstance(clock, VirtualClock), "threads cannot share virtual time"
    try:
        return SimServer(_Server(handle, clock, port))
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise ConfigError(f"port {port} is in use; stop its user or choose another") from None
        raise ConfigError(f"cannot listen on port {port}; choose another, or 0 for any") from None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handle: Handle, clock: Clock, port: int) -> None:
        self.handle_call = handle
        self.clock = clock
        self.stopping = threading.Event()
        super().__init__((HOST, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Stay quiet: a client that hung up is part of the game."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
        """Stay quiet."""

    def do_GET(self) -> None:
        """Send the simulator's reply."""
        self.close_connection = True
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(min(length, BODY_BYTES_MAX))
        target = urlsplit(self.path)._replace(scheme="", netloc="").geturl()
        reply = self.server.handle_call(self.command, target, dict(self.headers), body)
        clock, stopping = self.server.clock, self.server.stopping
        if reply.outcome == "hang":
            clock.sleep(HANG_S_MAX, wake=stopping)
        elif reply.outcome == "answer":
            clock.sleep(reply.delay_s, wake=stopping)
            with contextlib.suppress(OSError):  # the client may have given up
                self._write(reply)

    do_POST = do_GET  # noqa: N815 - the base class chooses these names

    def _write(self, reply: SimReply) -> None:
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(reply.body)
